/* local_server.h - real private servers of `local:` in a folder of the test's own. Each ends when it has been idle for
 * a second, also after a test that broke off. */
#ifndef HLK_TEST_LOCAL_SERVER_H
#define HLK_TEST_LOCAL_SERVER_H

#include "net/local.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { RECONNECT_MS = WAIT_MS, STARTS_MS = 3000, SHORT_MS = 300, IDLE_MS = 1000 };

extern char folder[];
extern char socket_path[sizeof((struct sockaddr_un *)0)->sun_path];
extern struct hlk_error local_error;

const char *in_folder(const char *name);
long number_in(const char *path);
pid_t server_pid_in(const char *path);
pid_t server_pid(void);

/* The only function that sends signals. It gives up at a pid of -1 or 0, which would reach all processes. */
void send_signal(pid_t pid, int sig);

/* A field of /proc/PID/status; "": there is no such process. */
const char *status_of(pid_t pid, const char *field);
pid_t parent_of(pid_t pid);
bool is_gone(pid_t pid);
enum hlk_status ensure_for(int64_t reconnect_timeout_ms);
void ensure(void);
int connected_to(const char *path);

/* Sends one short command. Returns what one read gives of the reply. */
const char *asked(int fd, const char *question);
const char *ask_once(const char *question);
void end_server(int sig);
void local_begin(void);
void local_end(void);

#endif

/* Loads the library given, calls it in a thread, unloads it, and only then lets the thread end. */
#include <dlfcn.h>
#include <hasplock/hasplock.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

typedef enum hlk_status open_fn(hlk_client **, const char *, const struct hlk_client_opts *);

static sem_t called, unloaded;
static open_fn *open_client;

static void *call(void *arg)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    hlk_client *client;
    opts.reconnect_timeout_ms = 10;
    (void)!open_client(&client, "unix:/nonexistent/socket", &opts);
    sem_post(&called);
    sem_wait(&unloaded);
    return arg; /* the destructor of what the library keeps for this thread runs now */
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *library = dlopen(argc > 1 ? argv[1] : "libhasplock.so.0", RTLD_NOW);
    if (!library || !(open_client = (open_fn *)dlsym(library, "hlk_client_open"))) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    sem_init(&called, 0, 0);
    sem_init(&unloaded, 0, 0);
    if (pthread_create(&thread, NULL, call, NULL) != 0)
        return 1;
    sem_wait(&called);
    dlclose(library);
    sem_post(&unloaded);
    return pthread_join(thread, NULL);
}

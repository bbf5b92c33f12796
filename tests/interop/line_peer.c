#include "line_peer.h"

#include "support/wait.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t peer;
static FILE *to_peer, *from_peer;

void line_peer_start(const char *command)
{
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0 || (peer = fork()) < 0)
        test_give_up("peer: %s", strerror(errno));
    if (peer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_peer = fdopen(in[1], "w");
    from_peer = fdopen(out[0], "r");
}

void line_peer_end(void)
{
    int status;
    fclose(to_peer);
    waitpid(peer, &status, 0);
    fclose(from_peer);
}

void line_peer_tell(const char *line)
{
    fprintf(to_peer, "%s\n", line);
    fflush(to_peer);
}

const char *line_peer_answer(void)
{
    static char answer[64];
    if (!fgets(answer, sizeof answer, from_peer))
        test_give_up("the peer has ended");
    answer[strcspn(answer, "\n")] = '\0';
    return answer;
}

const char *line_peer_ask(const char *line)
{
    line_peer_tell(line);
    return line_peer_answer();
}

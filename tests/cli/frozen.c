#include "frozen.h"

#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/hlk-frozen-XXXXXX";
static int folder = -1, alive[2] = { -1, -1 };

static bool run(const char *format, const char *argument)
{
    char command[512];
    snprintf(command, sizeof command, format, argument, argument);
    return system(command) == 0;
}

/* A process that waits for the end of ours and thaws: else a writer would hang until the next boot. */
static void thaw_at_the_end(void)
{
    char byte;
    if (pipe2(alive, O_CLOEXEC) != 0)
        test_give_up("pipe: %s", strerror(errno));
    if (fork() == 0) {
        close(alive[1]);
        while (read(alive[0], &byte, 1) < 0)
            ;
        ioctl(folder, FITHAW, 0);
        _exit(0);
    }
    close(alive[0]);
}

const char *frozen_mount(void)
{
    const char *why = NULL;
    if (!mkdtemp(dir))
        test_give_up("%s: %s", dir, strerror(errno));
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        why = "no mount namespace (not root?)";
    else if (!run("truncate -s 8M %s.img && mkfs.ext4 -q %s.img", dir))
        why = "no mkfs.ext4";
    else if (!run("mount -o loop %s.img %s", dir))
        why = "no loop device";
    if (why) {
        fprintf(stderr, "skipped: no file system to freeze: %s\n", why);
        return NULL;
    }
    folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    thaw_at_the_end();
    return dir;
}

void frozen_freeze(bool freeze)
{
    if (ioctl(folder, freeze ? FIFREEZE : FITHAW, 0) != 0)
        test_give_up("cannot %s: %s", freeze ? "freeze" : "thaw", strerror(errno));
}

void frozen_unmount(void)
{
    close(folder);
    close(alive[1]);
    wait(NULL);
    run("umount -l %s; rm -f %s.img", dir);
    rmdir(dir);
}

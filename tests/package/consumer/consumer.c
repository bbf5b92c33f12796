/* consumer.c - takes and gives back a lock on local:, by the installed headers and library alone. */
#include <hasplock/hasplock.h>

#include <stdio.h>

int main(void)
{
    hlk_client *client;
    if (hlk_client_open(&client, "local:", NULL) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    hlk_lock *lock = hlk_lock_create(client, "package:c", NULL);
    int failed = hlk_lock_acquire(lock, 2000) != HLK_OK || hlk_lock_release(lock) != HLK_OK;
    if (failed)
        fprintf(stderr, "%s\n", hlk_last_error());
    else
        printf("hasplock %s\n", hlk_version());
    hlk_lock_destroy(lock);
    hlk_client_close(client);
    return failed;
}

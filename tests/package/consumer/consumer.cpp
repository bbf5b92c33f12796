// consumer.cpp - the same in C++, by hasplock::guard.
#include <hasplock/hasplock.h>

#include <cstdio>

int main()
{
    hlk_client *client;
    if (hlk_client_open(&client, "local:", nullptr) != HLK_OK) {
        std::fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    hlk_lock *lock = hlk_lock_create(client, "package:cxx", nullptr);
    {
        hasplock::guard held(lock, 2000);
        if (held)
            std::printf("hasplock %s\n", hlk_version());
    }
    bool failed = hlk_last_status() != HLK_OK || hlk_lock_holds(lock) != 0;
    if (failed)
        std::fprintf(stderr, "%s\n", hlk_last_error());
    hlk_lock_destroy(lock);
    hlk_client_close(client);
    return failed;
}

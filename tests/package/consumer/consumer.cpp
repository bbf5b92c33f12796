// consumer.cpp - the same in C++, by hasplock.hpp.
#include <hasplock/hasplock.hpp>

#include <cstdio>

int main()
try {
    hasplock::client client("local:");
    hasplock::mutex mutex(client, "package:cxx"), other(client, "package:cxx:other");
    std::unique_lock<hasplock::mutex> held(mutex, std::chrono::seconds(2));
    hasplock::guard nested(mutex, std::chrono::seconds(2));
    if (!held || !nested || nested.release() != HLK_OK || held.release()->release() != HLK_OK)
        return 1;
    {
        std::scoped_lock both(mutex, other);
        if (hlk_lock_holds(mutex.get()) != 1 || hlk_lock_holds(other.get()) != 1)
            return 1;
    }
    if (hlk_lock_holds(mutex.get()) != 0 || hlk_lock_holds(other.get()) != 0)
        return 1;
    std::printf("hasplock %s\n", hlk_version());
} catch (const std::system_error &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}

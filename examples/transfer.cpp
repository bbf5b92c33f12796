/* transfer.cpp - two locks at once, by std::scoped_lock. transfer [URL]
 *
 * Threads move money between two accounts, in both directions. std::scoped_lock takes both locks without a deadlock, in
 * whatever order they are named, also when the threads are on several hosts. C++17. */
#include <hasplock/hasplock.hpp>

#include <cstdio>
#include <thread>
#include <vector>

namespace {

struct account {
    hasplock::mutex mutex;
    int balance;
};

void transfer(account &from, account &to, int amount)
{
    std::scoped_lock both(from.mutex, to.mutex);
    const int left = from.balance - amount;
    std::this_thread::sleep_for(std::chrono::microseconds(100)); /* the bank takes a moment */
    from.balance = left;
    to.balance += amount;
}

/* False: somebody else held the lock for all of 5 s, or the hold was lost before the balance was read. */
bool report(account &of, const char *name)
{
    std::unique_lock<hasplock::mutex> held(of.mutex, std::chrono::seconds(5));
    if (!held)
        return false;
    const int balance = of.balance;
    if (held.release()->release() != HLK_OK) /* an unlock with an answer */
        return false;
    std::printf("%s: %d\n", name, balance);
    return true;
}

} // namespace

int main(int argc, char **argv)
try {
    hasplock::client client(argc > 1 ? argv[1] : "local:");
    account alice{ hasplock::mutex(client, "account:alice"), 100 };
    account bob{ hasplock::mutex(client, "account:bob"), 100 };

    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&alice, &bob, i] {
            for (int n = 0; n < 25; n++)
                i % 2 ? transfer(alice, bob, 3) : transfer(bob, alice, 2);
        });
    for (std::thread &thread : threads)
        thread.join();
    return report(alice, "alice") && report(bob, "bob") && alice.balance == 50 && bob.balance == 150 ? 0 : 1;
} catch (const std::system_error &e) { /* no server, no right to the key, a lost lock: what() says which */
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}

/* hasplock.hpp, called from test_guard.c: each returns 0 or the line that failed. */
#include "hasplock/hasplock.hpp"

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)

static_assert(!std::is_copy_constructible<hasplock::guard>::value, "a hold has one owner");
static_assert(!std::is_copy_assignable<hasplock::guard>::value, "a hold has one owner");
static_assert(std::is_nothrow_move_constructible<hasplock::guard>::value, "throws nothing");
static_assert(std::is_nothrow_move_assignable<hasplock::guard>::value, "throws nothing");
static_assert(std::is_nothrow_destructible<hasplock::guard>::value, "throws nothing");
static_assert(std::is_nothrow_move_constructible<hasplock::client>::value, "throws nothing");
static_assert(std::is_nothrow_move_assignable<hasplock::mutex>::value, "throws nothing");
static_assert(!std::is_copy_constructible<hasplock::mutex>::value, "a handle has one owner");
static_assert(!std::is_copy_constructible<hasplock::condition>::value, "a handle has one owner");
static_assert(std::is_nothrow_move_assignable<hasplock::condition>::value, "throws nothing");
static_assert(noexcept(std::declval<hasplock::mutex &>().unlock()), "a lock of std unlocks in its destructor");

using std::chrono::milliseconds;

extern "C" {
int guard_cxx_scopes(hlk_lock *lock);
int guard_cxx_moves(hlk_lock *lock);
int guard_cxx_assigns(hlk_lock *lock, hlk_lock *other);
int guard_cxx_throws(hlk_lock *lock);
int guard_cxx_busy(hlk_lock *lock);
int guard_cxx_loses(hlk_lock *lock);
int guard_cxx_takes_options(hlk_client *client, hlk_lock *lock);
int guard_cxx_adopts(hlk_lock *lock);
int cxx_rounds_lengths_up(void);
int guard_cxx_refuses_leases(hlk_lock *lock);
int client_cxx_closes(const char *url);
int client_cxx_throws(void);
int mutex_cxx_in_locks_of_std(hlk_client *client);
int mutex_cxx_waits(hlk_client *client, hlk_client *other);
int mutex_cxx_scoped(hlk_client *client);
int mutex_cxx_scoped_throws(hlk_client *client);
int mutex_cxx_in_another_thread(hlk_client *client);
int mutex_cxx_throws(hlk_client *client);
int mutex_cxx_loses(hlk_client *client);
int mutex_cxx_does_not_nest(hlk_client *client);
int condition_cxx_notifies(hlk_client *client, hlk_client *other);
int condition_cxx_times_out(hlk_client *client);
int condition_cxx_throws(hlk_client *client);
}

static hasplock::guard take(hlk_lock *lock)
{
    hasplock::guard held(lock, HLK_NOWAIT);
    return held;
}

int guard_cxx_scopes(hlk_lock *lock)
{
    {
        hasplock::guard held(lock);
        CHECK(held);
        CHECK(held.status() == HLK_OK);
        CHECK(hlk_lock_holds(lock) == 1);
        hasplock::guard nested(lock, 1000);
        CHECK(hlk_lock_holds(lock) == 2);
        CHECK(nested.release() == HLK_OK);
        CHECK(!nested);
        CHECK(nested.release() == HLK_NOT_HOLDER);
        CHECK(hlk_lock_holds(lock) == 1);
    }
    CHECK(hlk_lock_holds(lock) == 0);
    return 0;
}

int guard_cxx_moves(hlk_lock *lock)
{
    {
        hasplock::guard held = take(lock);
        CHECK(held && hlk_lock_holds(lock) == 1);
        hasplock::guard moved(std::move(held));
        CHECK(!held && moved && hlk_lock_holds(lock) == 1);
    }
    CHECK(hlk_lock_holds(lock) == 0);
    return 0;
}

int guard_cxx_assigns(hlk_lock *lock, hlk_lock *other)
{
    {
        hasplock::guard held(lock, HLK_NOWAIT), next(other, HLK_NOWAIT);
        CHECK(held && next);
        held = std::move(next);
        CHECK(held && !next);
        CHECK(hlk_lock_holds(lock) == 0 && hlk_lock_holds(other) == 1);
        hasplock::guard &same = held;
        held = std::move(same);
        CHECK(held && hlk_lock_holds(other) == 1);
        held = take(lock);
        CHECK(held && hlk_lock_holds(lock) == 1 && hlk_lock_holds(other) == 0);
        held = take(nullptr);
        CHECK(!held && held.status() == HLK_E_INVALID && hlk_lock_holds(lock) == 0);
        held = take(other);
        CHECK(held && held.status() == HLK_OK && hlk_lock_holds(other) == 1);
    }
    CHECK(hlk_lock_holds(lock) == 0 && hlk_lock_holds(other) == 0);
    return 0;
}

int guard_cxx_throws(hlk_lock *lock)
{
    bool caught = false;
    try {
        hasplock::guard held(lock, HLK_NOWAIT);
        if (held)
            throw std::runtime_error("on the way");
    } catch (const std::runtime_error &) {
        caught = true;
    }
    CHECK(caught);
    CHECK(hlk_lock_holds(lock) == 0);
    return 0;
}

int guard_cxx_busy(hlk_lock *lock)
{
    hasplock::guard held(lock, 20);
    CHECK(!held);
    CHECK(held.status() == HLK_TIMEOUT);
    CHECK(held.release() == HLK_NOT_HOLDER);
    return 0;
}

int guard_cxx_loses(hlk_lock *lock)
{
    {
        hasplock::guard held(lock, HLK_NOWAIT);
        CHECK(held && hlk_lock_break(lock) == HLK_OK);
    }
    CHECK(hlk_lock_release(lock) == HLK_NOT_HOLDER);
    return 0;
}

/* `lock` is held by somebody else. */
int guard_cxx_takes_options(hlk_client *client, hlk_lock *lock)
{
    hasplock::unique<hlk_cancel> stop(hlk_cancel_create(client));
    hasplock::mutex other(client, "t2");
    hasplock::guard timed(lock, milliseconds(20));
    CHECK(!timed && timed.status() == HLK_TIMEOUT);
    hasplock::guard with(other, hasplock::acquire_opts().wait_for(milliseconds(20)).lease_for(std::chrono::minutes(1)));
    CHECK(with && other.left() > std::chrono::seconds(50));
    hlk_cancel_trigger(stop.get());
    hasplock::guard cancelled(lock, hasplock::acquire_opts().cancelled_by(stop));
    CHECK(!cancelled && cancelled.status() == HLK_INTERRUPTED);
    return 0;
}

int guard_cxx_adopts(hlk_lock *lock)
{
    CHECK(hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK && hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK);
    {
        hasplock::guard held(lock, std::adopt_lock);
        CHECK(held && held.status() == HLK_OK && hlk_lock_holds(lock) == 2);
    }
    CHECK(hlk_lock_holds(lock) == 1);
    CHECK(hlk_lock_release(lock) == HLK_OK);
    return 0;
}

int cxx_rounds_lengths_up(void)
{
    using hasplock::detail::to_wait_ms;
    using hasplock::detail::to_lease_ms;
    CHECK(to_wait_ms(std::chrono::seconds(2)) == 2000);
    CHECK(to_wait_ms(std::chrono::nanoseconds(1)) == 1);
    CHECK(to_wait_ms(std::chrono::microseconds(2001)) == 3);
    CHECK(to_wait_ms(milliseconds(0)) == HLK_NOWAIT);
    CHECK(to_wait_ms(milliseconds(-1)) == HLK_NOWAIT);
    CHECK(to_wait_ms(std::chrono::hours::min()) == HLK_NOWAIT);
    CHECK(to_wait_ms(std::chrono::hours::max()) == HLK_FOREVER);
    CHECK(to_wait_ms(std::chrono::duration<double>(0.0015)) == 2);
    CHECK(to_lease_ms(std::chrono::seconds(2)) == 2000);
    CHECK(to_lease_ms(milliseconds(0)) > 0 && to_lease_ms(milliseconds(-5)) > 0); /* 0: the lock's, < 0: watchdog */
    CHECK(to_lease_ms(std::chrono::hours::max()) > 0);
    return 0;
}

/* A deadline that has passed, or an endless length, does not become a lease without end. */
int guard_cxx_refuses_leases(hlk_lock *lock)
{
    const milliseconds none[] = { milliseconds(-5), milliseconds(0), milliseconds(1), milliseconds::max() };
    for (milliseconds length : none) {
        hasplock::guard held(lock, hasplock::acquire_opts().lease_for(length));
        CHECK(!held && held.status() == HLK_E_INVALID);
    }
    return 0;
}

int client_cxx_closes(const char *url)
{
    hasplock::client client(url), other(url);
    hasplock::mutex mutex(client, "t"), moved(std::move(mutex));
    CHECK(moved.try_lock() && !mutex.get());
    client = std::move(other);      /* closes the first, which releases what it holds */
    CHECK(!other.get() && client.get());
    hasplock::mutex again(client, std::string("t"));
    CHECK(again.try_lock());
    again.unlock();
    return 0;
}

int client_cxx_throws(void)
{
    try {
        hasplock::client client("redis://host:0");
    } catch (const std::system_error &e) {
        CHECK(e.code() == std::errc::invalid_argument);
        CHECK(e.code() == hasplock::error_code(HLK_E_INVALID) && e.code().category() == hasplock::category());
        CHECK(std::strstr(e.what(), "the port"));
        return 0;
    }
    return __LINE__;
}

static bool is_free(hasplock::mutex &mutex)
{
    bool got = false;
    std::thread([&] {
        got = mutex.try_lock();
        if (got)
            mutex.unlock();
    }).join();
    return got;
}

int mutex_cxx_in_locks_of_std(hlk_client *client)
{
    hasplock::mutex mutex(client, "t");
    {
        std::lock_guard<hasplock::mutex> held(mutex);
        CHECK(!is_free(mutex));
        std::unique_lock<hasplock::mutex> nested(mutex, std::try_to_lock);
        CHECK(nested && hlk_lock_holds(mutex.get()) == 2);
    }
    CHECK(is_free(mutex));
    std::unique_lock<hasplock::mutex> first(mutex, std::defer_lock);
    CHECK(!first && is_free(mutex));
    CHECK(first.try_lock_for(std::chrono::seconds(5)));
    std::unique_lock<hasplock::mutex> held = std::move(first);
    CHECK(held && !first && !is_free(mutex));
    CHECK(held.release()->release() == HLK_OK && is_free(mutex));
    mutex.lock();
    std::unique_lock<hasplock::mutex> adopted(mutex, std::adopt_lock);
    adopted.unlock();
    CHECK(is_free(mutex));
    return 0;
}

int mutex_cxx_waits(hlk_client *client, hlk_client *other)
{
    using clock = std::chrono::steady_clock;
    hasplock::mutex mutex(client, "t"), theirs(other, "t");
    std::lock_guard<hasplock::mutex> held(theirs);
    const clock::time_point began = clock::now();
    CHECK(!mutex.try_lock());
    CHECK(!mutex.try_lock_for(milliseconds(30)));
    CHECK(clock::now() - began >= milliseconds(30));
    const clock::time_point until = clock::now() + milliseconds(30);
    std::unique_lock<hasplock::mutex> timed(mutex, until);
    CHECK(!timed && clock::now() >= until);
    const std::chrono::system_clock::time_point moment = std::chrono::system_clock::now() + milliseconds(30);
    CHECK(!mutex.try_lock_until(moment) && std::chrono::system_clock::now() >= moment);
    CHECK(!mutex.try_lock_until(clock::now() - std::chrono::hours(1)));
    CHECK(!mutex.try_lock_until(clock::time_point::min()));
    return 0;
}

/* Two threads that take them in opposite orders: by std::scoped_lock, or by what it is made of. */
int mutex_cxx_scoped(hlk_client *client)
{
    hasplock::mutex first(client, "t1"), second(client, "t2");
    std::atomic<int> inside{0}, overlaps{0}, both{0};
    auto work = [&](hasplock::mutex &a, hasplock::mutex &b) {
        for (int i = 0; i < 50; i++) {
#if __cplusplus >= 201703L
            std::scoped_lock held(a, b);
#else
            std::lock(a, b);
            std::lock_guard<hasplock::mutex> held(a, std::adopt_lock), held_too(b, std::adopt_lock);
#endif
            overlaps += inside++ > 0;
            std::this_thread::yield();
            both += hlk_lock_holds(a.get()) == 1 && hlk_lock_holds(b.get()) == 1;
            inside--;
        }
    };
    std::thread other([&] { work(second, first); });
    work(first, second);
    other.join();
    CHECK(overlaps == 0);
    CHECK(both == 100);
    return 0;
}

/* The second throws: the first is unlocked. */
int mutex_cxx_scoped_throws(hlk_client *client)
{
    hasplock::mutex first(client, "t1"), lost(client, "t2");
    lost.lock();
    CHECK(hlk_lock_break(lost.get()) == HLK_OK && hlk_lock_extend(lost.get(), 1000) == HLK_LOST);
    bool thrown = false;
    try {
        std::lock(first, lost);
    } catch (const std::system_error &e) {
        thrown = e.code() == hasplock::error_code(HLK_LOST);
    }
    CHECK(thrown && hlk_lock_holds(first.get()) == 0 && is_free(first));
    CHECK(lost.release() == HLK_LOST);
    return 0;
}

/* Another thread is another holder; with an owner the thread does not matter. */
int mutex_cxx_in_another_thread(hlk_client *client)
{
    hasplock::mutex plain(client, "t1");
    hasplock::unique<hlk_owner> owner(hlk_owner_create(client, "job"));
    hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner.get();
    hasplock::mutex owned(client, "t2", &opts);
    std::unique_lock<hasplock::mutex> held(plain), held_too(owned);
    hlk_status of_plain = HLK_OK, of_owned = HLK_LOST;
    std::thread([&] {
        of_plain = plain.release();
        of_owned = held_too.release()->release();
    }).join();
    CHECK(of_plain == HLK_NOT_HOLDER && !is_free(plain));
    CHECK(of_owned == HLK_OK);
    return 0;
}

int mutex_cxx_throws(hlk_client *client)
{
    hasplock::mutex mutex(client, "t"), moved(std::move(mutex));
    int thrown = 0;
    try {
        mutex.lock();
    } catch (const std::system_error &e) {
        thrown += e.code() == hasplock::error_code(HLK_E_INVALID);
    }
    try {
        hasplock::mutex nameless(client, "");
    } catch (const std::system_error &e) {
        thrown += e.code() == std::errc::invalid_argument;
    }
    try {
        hasplock::mutex cut(client, std::string("t\0u", 3));
    } catch (const std::system_error &e) {
        thrown += e.code() == std::errc::invalid_argument;
    }
    moved.lock();
    CHECK(hlk_lock_break(moved.get()) == HLK_OK);
    CHECK(moved.release() == HLK_LOST);
    moved.lock();
    CHECK(hlk_lock_break(moved.get()) == HLK_OK);
    CHECK(hlk_lock_extend(moved.get(), 1000) == HLK_LOST); /* so it is known here */
    try {
        (void)moved.try_lock();
    } catch (const std::system_error &e) {
        thrown += e.code() == hasplock::error_code(HLK_LOST) && std::strstr(e.what(), "\"t\"");
    }
    CHECK(moved.release() == HLK_LOST);
    CHECK(thrown == 4);
    return 0;
}

int mutex_cxx_loses(hlk_client *client)
{
    hasplock::mutex mutex(client, "t1"), other(client, "t2");
    {
        std::lock_guard<hasplock::mutex> held(mutex);
        CHECK(hlk_lock_break(mutex.get()) == HLK_OK);
    }
    std::unique_lock<hasplock::mutex> held(other);
    CHECK(hlk_lock_break(other.get()) == HLK_OK);
    CHECK(held.release()->release() == HLK_LOST);
    return 0;
}

int mutex_cxx_does_not_nest(hlk_client *client)
{
    hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_NON_REENTRANT;
    hasplock::mutex mutex(client, "t", &opts);
    std::unique_lock<hasplock::mutex> held(mutex);
    for (int tries = 0; tries < 2; tries++) {
        try {
            if (tries)
                (void)mutex.try_lock();
            else
                mutex.lock();
            return __LINE__;
        } catch (const std::system_error &error) {
            CHECK(error.code() == std::errc::resource_deadlock_would_occur);
        }
        CHECK(hlk_lock_holds(mutex.get()) == 1);
    }
    return 0;
}

static int takes_two(hasplock::condition &filled, hasplock::mutex &mutex, std::atomic<int> &items)
{
    std::unique_lock<hasplock::mutex> held(mutex);
    filled.wait(held, [&items] { return items > 0; });
    CHECK(held.owns_lock() && hlk_lock_holds(mutex.get()) == 1);
    items--;
    while (items == 0)
        filled.wait(held);
    CHECK(held.owns_lock() && hlk_lock_holds(mutex.get()) == 1);
    items--;
    return 0;
}

int condition_cxx_notifies(hlk_client *client, hlk_client *other)
{
    hasplock::mutex here(client, "t"), there(other, "t");
    hasplock::condition filled(client, "t"), notifies(other, "t", std::chrono::seconds(30));
    std::atomic<int> items(0);
    std::thread producer([&] {
        for (int i = 0; i < 2; i++) {
            std::unique_lock<hasplock::mutex> held(there);
            items++;
            if (i == 0)
                notifies.notify_one();
            held.unlock();
            if (i == 1)
                notifies.notify_all();
        }
    });
    const int failed = takes_two(filled, here, items);
    producer.join();
    CHECK(hlk_lock_holds(here.get()) == 0 && items == 0);
    return failed;
}

int condition_cxx_times_out(hlk_client *client)
{
    hasplock::mutex mutex(client, "t");
    hasplock::condition filled(client, "t");
    std::unique_lock<hasplock::mutex> held(mutex);
    CHECK(filled.wait_for(held, milliseconds(30)) == std::cv_status::timeout);
    CHECK(!filled.wait_for(held, milliseconds(30), [] { return false; }));
    CHECK(filled.wait_for(held, milliseconds(30), [] { return true; }));
    CHECK(held.owns_lock() && hlk_lock_holds(mutex.get()) == 1);
    return 0;
}

int condition_cxx_throws(hlk_client *client)
{
    hasplock::mutex mutex(client, "t");
    hasplock::condition filled(client, "t");
    std::unique_lock<hasplock::mutex> held(mutex);
    held.unlock();
    for (int lost = 0; lost < 2; lost++) {
        if (lost) {
            held.lock();
            CHECK(hlk_lock_break(mutex.get()) == HLK_OK);
        }
        try {
            filled.wait(held);
            return __LINE__;
        } catch (const std::system_error &error) {
            CHECK(error.code() == hasplock::error_code(lost ? HLK_LOST : HLK_NOT_HOLDER));
        }
        CHECK(!held.owns_lock() && hlk_lock_holds(mutex.get()) == 0);
    }
    try {
        hasplock::condition none(client, "t", milliseconds(1));
        return __LINE__;
    } catch (const std::system_error &error) {
        CHECK(error.code() == std::errc::invalid_argument);
    }
    return 0;
}

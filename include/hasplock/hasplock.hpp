/* hasplock.hpp - for C++11 and later: a mutex for std::unique_lock and std::scoped_lock, a condition variable for it,
 * guards, and handles that free themselves. All of it is inline, on top of hasplock.h.
 *
 *     hasplock::client client("redis://localhost");
 *     hasplock::mutex invoice(client, "invoice:42");
 *
 *     std::unique_lock<hasplock::mutex> held(invoice, std::chrono::seconds(2));
 *     if (held)
 *         pay();
 *
 * There are two ways to lock. They may be mixed:
 *
 *     mutex    with the locks of the standard library. Results are bool; errors are thrown as std::system_error
 *     guard    with the statuses of the C API; throws nothing
 *
 * The release at the end of a scope cannot return a status, and never throws. A loss is reported as in C: by on_event,
 * hlk_lock_lost_fd and the counters. A release that the server does not answer is repeated in the background until the
 * lease is over. A caller that needs the outcome before it goes on releases explicitly:
 *
 *     if (held.release()->release() != HLK_OK)                std::unique_lock; of a guard: held.release()
 *         check_for_a_second_payment();                       HLK_LOST; HLK_E_UNSURE: not answered
 *
 * The holder is the thread that locked, as with std::mutex: an unlock in another thread changes nothing
 * (HLK_NOT_HOLDER). A handle with an owner (hlk_lock_opts) may be locked and unlocked in any thread.
 *
 * std::lock and std::scoped_lock avoid the deadlock of two holders that take the same locks in different orders. They
 * wait for one lock, try the others, and start again with another one when a try fails. If a hold was lost, or an error
 * occurs, they unlock what they have locked, and then throw.
 *
 * Without exceptions (-fno-exceptions) client, mutex and condition are not declared.
 */
#ifndef HASPLOCK_HPP
#define HASPLOCK_HPP

#include "hasplock.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

namespace hasplock {

/* With C++17, the compiler warns of a guard without a name: it would release at the end of its own line. */
#define HLK_NAMED
#if __cplusplus >= 201703L
#if __has_cpp_attribute(nodiscard) >= 201907L
#undef HLK_NAMED
#define HLK_NAMED [[nodiscard]]
#endif
#endif

/* --- handles of the C API that free themselves: unique<hlk_cancel> stop(hlk_cancel_create(client.get())) */

struct destroyer {
    void operator()(hlk_client *client) const noexcept { hlk_client_close(client); }
    void operator()(hlk_lock *lock) const noexcept { hlk_lock_destroy(lock); }
    void operator()(hlk_owner *owner) const noexcept { hlk_owner_destroy(owner); }
    void operator()(hlk_cancel *cancel) const noexcept { hlk_cancel_destroy(cancel); }
    void operator()(hlk_semaphore *semaphore) const noexcept { hlk_semaphore_destroy(semaphore); }
    void operator()(hlk_permits *permits) const noexcept { hlk_permits_destroy(permits); }
    void operator()(hlk_latch *latch) const noexcept { hlk_latch_destroy(latch); }
    void operator()(hlk_barrier *barrier) const noexcept { hlk_barrier_destroy(barrier); }
    void operator()(hlk_condition *condition) const noexcept { hlk_condition_destroy(condition); }
};

template <class T>
using unique = std::unique_ptr<T, destroyer>;

/* --- errors and durations */

namespace detail {

class status_category final : public std::error_category {
public:
    const char *name() const noexcept override { return "hasplock"; }
    std::string message(int value) const override { return hlk_status_text(static_cast<hlk_status>(value)); }
    std::error_condition default_error_condition(int value) const noexcept override
    {
        switch (value) {
        case HLK_BUSY: return std::errc::device_or_resource_busy;
        case HLK_TIMEOUT: return std::errc::timed_out;
        case HLK_INTERRUPTED: return std::errc::operation_canceled;
        case HLK_NOT_HOLDER: return std::errc::operation_not_permitted;
        case HLK_LOST: return std::errc::owner_dead;
        case HLK_DEADLOCK: return std::errc::resource_deadlock_would_occur;
        case HLK_E_INVALID: return std::errc::invalid_argument;
        case HLK_E_NOMEM: return std::errc::not_enough_memory;
        case HLK_E_CONNECT: return std::errc::not_connected;
        case HLK_E_AUTH: return std::errc::permission_denied;
        default: return std::error_condition(value, *this);
        }
    }
};

constexpr int64_t max_ms = 3000000000000000; /* 95,000 years */

/* A duration in ms, rounded up: 0 to max_ms. */
template <class Rep, class Period>
int64_t to_ms(const std::chrono::duration<Rep, Period> &length)
{
    const double ms = std::chrono::duration<double, std::milli>(length).count();
    if (!(ms > 0))
        return 0;
    if (ms >= static_cast<double>(max_ms))
        return max_ms;
    const int64_t whole = static_cast<int64_t>(ms);
    return static_cast<double>(whole) < ms ? whole + 1 : whole;
}

/* A wait is never shorter than its duration. max_ms means no limit. */
template <class Rep, class Period>
int64_t to_wait_ms(const std::chrono::duration<Rep, Period> &length)
{
    const int64_t ms = to_ms(length);
    return ms == max_ms ? HLK_FOREVER : ms;
}

/* Never 0 or HLK_RENEWED, which have a meaning: a duration of 0 or less, or one that is too long, is HLK_E_INVALID. */
template <class Rep, class Period>
int64_t to_lease_ms(const std::chrono::duration<Rep, Period> &length)
{
    const int64_t ms = to_ms(length);
    return ms > 0 ? ms : 1;
}

} // namespace detail

/* The category of the std::system_error that mutex and client throw. The values of its codes are those of enum
 * hlk_status. Some codes equal a std::errc: timed_out, not_connected, permission_denied, invalid_argument, ... what()
 * has hlk_last_error(). */
inline const std::error_category &category() noexcept
{
    static const detail::status_category it;
    return it;
}

inline std::error_code error_code(hlk_status status) noexcept
{
    return std::error_code(static_cast<int>(status), category());
}

/* --- options of acquire: acquire_opts().wait_for(2s).cancelled_by(stop) */

struct acquire_opts : hlk_acquire_opts {
    acquire_opts() noexcept : hlk_acquire_opts HLK_ACQUIRE_OPTS_INIT {}

    template <class Rep, class Period>
    acquire_opts &wait_for(const std::chrono::duration<Rep, Period> &length)
    {
        wait_ms = detail::to_wait_ms(length);
        return *this;
    }
    /* A fixed lease, 100 ms to a year. */
    template <class Rep, class Period>
    acquire_opts &lease_for(const std::chrono::duration<Rep, Period> &length)
    {
        lease_ms = detail::to_lease_ms(length);
        return *this;
    }
    acquire_opts &cancelled_by(hlk_cancel *by) noexcept
    {
        cancel = by;
        return *this;
    }
    acquire_opts &cancelled_by(const unique<hlk_cancel> &by) noexcept { return cancelled_by(by.get()); }
};

#if defined(__cpp_exceptions)

namespace detail {

[[noreturn]] inline void raise(hlk_status status)
{
    throw std::system_error(error_code(status), hlk_last_error());
}

} // namespace detail

/* An open client. The destructor closes it. Movable. */
class client {
public:
    /* Throws std::system_error if hlk_client_open does not return HLK_OK. */
    explicit client(const std::string &url, const hlk_client_opts *opts = nullptr)
    {
        hlk_client *opened = nullptr;
        const hlk_status status = hlk_client_open(&opened, url.c_str(), opts);
        if (status != HLK_OK)
            detail::raise(status);
        client_.reset(opened);
    }
    hlk_client *get() const noexcept { return client_.get(); }

private:
    unique<hlk_client> client_;
};

/* A lock handle that is BasicLockable, Lockable and TimedLockable. The destructor destroys it. Movable. Any number of
 * threads at once. Reentrant: its holder (the thread, or opts->owner) may lock it again. If opts->kind forbids that, it
 * throws std::system_error with HLK_DEADLOCK, which equals resource_deadlock_would_occur.
 *
 * lock and the try functions throw std::system_error if the lock is neither acquired nor held by somebody else:
 * HLK_LOST (this holder lost an earlier hold, and has not unlocked it yet), HLK_E_CONNECT, ... (see
 * hlk_lock_acquire). */
class mutex {
public:
    mutex(hlk_client *client, const std::string &name, const hlk_lock_opts *opts = nullptr)
    {
        if (name.size() != std::strlen(name.c_str())) /* the C API would use only the part before the NUL */
            throw std::system_error(error_code(HLK_E_INVALID), "the name of a lock has a NUL");
        lock_.reset(hlk_lock_create(client, name.c_str(), opts));
        if (!lock_)
            detail::raise(hlk_last_status());
    }
    mutex(const client &client, const std::string &name, const hlk_lock_opts *opts = nullptr)
        : mutex(client.get(), name, opts)
    {
    }

    void lock() { (void)is_held(hlk_lock_acquire(get(), HLK_FOREVER)); }
    bool try_lock() { return is_held(hlk_lock_acquire(get(), HLK_NOWAIT)); }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &length)
    {
        return is_held(hlk_lock_acquire(get(), detail::to_wait_ms(length)));
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &moment)
    {
        for (;;) {
            const typename Clock::time_point now = Clock::now();
            if (moment <= now) /* the difference to time_point::min() would overflow */
                return try_lock();
            if (try_lock_for(moment - now))
                return true;
            if (moment <= Clock::now()) /* false if the clock was set back meanwhile */
                return false;
        }
    }

    void unlock() noexcept { (void)release(); }
    /* unlock that returns the status of hlk_lock_release. */
    hlk_status release() noexcept { return hlk_lock_release(get()); }

    /* Time left of the lease: check it before each effect on the outside world. No I/O. */
    std::chrono::milliseconds left() const noexcept { return std::chrono::milliseconds(hlk_lock_left_ms(get())); }
    hlk_lock *get() const noexcept { return lock_.get(); }

private:
    static bool is_held(hlk_status status)
    {
        if (status != HLK_OK && status != HLK_BUSY && status != HLK_TIMEOUT)
            detail::raise(status);
        return status == HLK_OK;
    }

    unique<hlk_lock> lock_;
};

/* A condition variable over many processes (condition.h), used as std::condition_variable_any is: with a
 * std::unique_lock<hasplock::mutex> that holds its mutex. The destructor destroys the handle. Movable. Any number of
 * threads at once. A wait may end although nobody has notified: give it a predicate, or look in a loop.
 *
 * All of them throw std::system_error if the C call is neither HLK_OK, HLK_TIMEOUT nor HLK_BUSY. If the mutex is not
 * held then, as after most failures of a wait, the std::unique_lock owns nothing. A mutex that is held again owns as
 * many holds as before. */
class condition {
public:
    condition(hlk_client *client, const std::string &name,
              std::chrono::milliseconds lease = std::chrono::milliseconds(0))
    {
        if (name.size() != std::strlen(name.c_str()))
            throw std::system_error(error_code(HLK_E_INVALID), "the name of a condition has a NUL");
        condition_.reset(hlk_condition_create(client, name.c_str(), lease.count()));
        if (!condition_)
            detail::raise(hlk_last_status());
    }
    condition(const client &client, const std::string &name,
              std::chrono::milliseconds lease = std::chrono::milliseconds(0))
        : condition(client.get(), name, lease)
    {
    }

    void notify_one() { is_done(hlk_condition_signal(get())); }
    void notify_all() { is_done(hlk_condition_broadcast(get())); }

    void wait(std::unique_lock<mutex> &held) { (void)is_woken(held, HLK_FOREVER); }
    template <class Predicate>
    void wait(std::unique_lock<mutex> &held, Predicate is_true)
    {
        while (!is_true())
            wait(held);
    }

    template <class Rep, class Period>
    std::cv_status wait_for(std::unique_lock<mutex> &held, const std::chrono::duration<Rep, Period> &length)
    {
        return is_woken(held, detail::to_wait_ms(length)) ? std::cv_status::no_timeout : std::cv_status::timeout;
    }
    /* False: is_true() is false after all of `length`. */
    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<mutex> &held, const std::chrono::duration<Rep, Period> &length, Predicate is_true)
    {
        const int64_t wait_ms = detail::to_wait_ms(length);
        const int64_t began_ms = hlk_now_ms();
        while (!is_true()) {
            const int64_t left_ms = wait_ms == HLK_FOREVER ? HLK_FOREVER : wait_ms - (hlk_now_ms() - began_ms);
            if (!is_woken(held, left_ms))
                return is_true();
        }
        return true;
    }

    hlk_condition *get() const noexcept { return condition_.get(); }

private:
    static void is_done(hlk_status status)
    {
        if (status != HLK_OK)
            detail::raise(status);
    }

    bool is_woken(std::unique_lock<mutex> &held, int64_t wait_ms)
    {
        if (!held.owns_lock())
            throw std::system_error(error_code(HLK_NOT_HOLDER), "a wait needs a lock that owns its mutex");
        hlk_lock *const lock = held.mutex()->get();
        const hlk_status status = hlk_condition_wait(get(), lock, wait_ms);
        if (status != HLK_OK && status != HLK_TIMEOUT && status != HLK_BUSY) {
            if (hlk_lock_holds(lock) == 0)
                (void)held.release();
            detail::raise(status);
        }
        return status == HLK_OK;
    }

    unique<hlk_condition> condition_;
};

#endif

/* --- guards: true while they hold. Movable; assigning to a guard first releases what it holds. Throws nothing */

class HLK_NAMED guard {
public:
    HLK_NAMED explicit guard(hlk_lock *lock, int64_t wait_ms = HLK_FOREVER) noexcept
        : g_(hlk_guard_acquire(lock, wait_ms))
    {
    }
    template <class Rep, class Period>
    HLK_NAMED guard(hlk_lock *lock, const std::chrono::duration<Rep, Period> &wait) noexcept
        : g_(hlk_guard_acquire(lock, detail::to_wait_ms(wait)))
    {
    }
    HLK_NAMED guard(hlk_lock *lock, const hlk_acquire_opts &opts) noexcept : g_(hlk_guard_acquire_with(lock, &opts)) {}
    /* Takes over a hold that the thread, or the lock's owner, has already: the guard releases it. */
    HLK_NAMED guard(hlk_lock *lock, std::adopt_lock_t) noexcept : g_(hlk_guard_adopt(lock)) {}

#if defined(__cpp_exceptions)
    HLK_NAMED explicit guard(const mutex &mutex) noexcept : guard(mutex.get()) {}
    template <class How>
    HLK_NAMED guard(const mutex &mutex, const How &how) noexcept : guard(mutex.get(), how)
    {
    }
#endif

    guard(guard &&other) noexcept : g_(other.g_) { other.g_.lock = nullptr; }
    guard &operator=(guard &&other) noexcept
    {
        if (this != &other) {
            hlk_guard_cleanup(&g_);
            g_ = other.g_;
            other.g_.lock = nullptr;
        }
        return *this;
    }
    guard(const guard &) = delete;
    guard &operator=(const guard &) = delete;
    ~guard() { hlk_guard_cleanup(&g_); }

    explicit operator bool() const noexcept { return g_.lock != nullptr; }
    hlk_status status() const noexcept { return g_.status; }       /* what acquire returned */
    hlk_status release() noexcept { return hlk_guard_release(&g_); }

private:
    hlk_guard g_;
};

/* Has permits of a semaphore. */
class HLK_NAMED semaphore_guard {
public:
    HLK_NAMED explicit semaphore_guard(hlk_semaphore *semaphore, int64_t permits = 1,
                                       int64_t wait_ms = HLK_FOREVER) noexcept
        : g_(hlk_semaphore_guard_acquire(semaphore, permits, wait_ms))
    {
    }
    template <class Rep, class Period>
    HLK_NAMED semaphore_guard(hlk_semaphore *semaphore, int64_t permits,
                              const std::chrono::duration<Rep, Period> &wait) noexcept
        : g_(hlk_semaphore_guard_acquire(semaphore, permits, detail::to_wait_ms(wait)))
    {
    }
    HLK_NAMED semaphore_guard(hlk_semaphore *semaphore, int64_t permits, const hlk_acquire_opts &opts) noexcept
        : g_(hlk_semaphore_guard_acquire_with(semaphore, permits, &opts))
    {
    }

    semaphore_guard(semaphore_guard &&other) noexcept : g_(other.g_) { other.g_.semaphore = nullptr; }
    semaphore_guard &operator=(semaphore_guard &&other) noexcept
    {
        if (this != &other) {
            hlk_semaphore_guard_cleanup(&g_);
            g_ = other.g_;
            other.g_.semaphore = nullptr;
        }
        return *this;
    }
    semaphore_guard(const semaphore_guard &) = delete;
    semaphore_guard &operator=(const semaphore_guard &) = delete;
    ~semaphore_guard() { hlk_semaphore_guard_cleanup(&g_); }

    explicit operator bool() const noexcept { return g_.semaphore != nullptr; }
    hlk_status status() const noexcept { return g_.status; }       /* what acquire returned */
    hlk_status release() noexcept { return hlk_semaphore_guard_release(&g_); }

private:
    hlk_semaphore_guard g_;
};

#undef HLK_NAMED
} // namespace hasplock

#endif

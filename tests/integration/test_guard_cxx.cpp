/* The C++ half of guard.h, called from test_guard.c: each returns 0 or the line that failed. */
#include "hasplock/hasplock.h"

#include <stdexcept>
#include <type_traits>
#include <utility>

#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)

static_assert(!std::is_copy_constructible<hasplock::guard>::value, "a hold has one owner");
static_assert(!std::is_copy_assignable<hasplock::guard>::value, "a hold has one owner");
static_assert(std::is_nothrow_move_constructible<hasplock::guard>::value, "throws nothing");
static_assert(std::is_nothrow_move_assignable<hasplock::guard>::value, "throws nothing");
static_assert(std::is_nothrow_destructible<hasplock::guard>::value, "throws nothing");

extern "C" {
int guard_cxx_scopes(hlk_lock *lock);
int guard_cxx_moves(hlk_lock *lock);
int guard_cxx_assigns(hlk_lock *lock, hlk_lock *other);
int guard_cxx_throws(hlk_lock *lock);
int guard_cxx_busy(hlk_lock *lock);
int guard_cxx_loses(hlk_lock *lock);
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

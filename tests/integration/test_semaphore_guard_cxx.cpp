/* hasplock::semaphore_guard, called from test_semaphore_guard.c: returns 0 or the line that failed. */
#include "hasplock/hasplock.hpp"

#include <stdexcept>
#include <type_traits>
#include <utility>

#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)

static_assert(!std::is_copy_constructible<hasplock::semaphore_guard>::value, "permits are given back once");
static_assert(!std::is_copy_assignable<hasplock::semaphore_guard>::value, "permits are given back once");
static_assert(std::is_nothrow_move_constructible<hasplock::semaphore_guard>::value, "throws nothing");
static_assert(std::is_nothrow_move_assignable<hasplock::semaphore_guard>::value, "throws nothing");
static_assert(std::is_nothrow_destructible<hasplock::semaphore_guard>::value, "throws nothing");

extern "C" {
int semaphore_guard_cxx(hlk_client *client, hlk_semaphore *semaphore);
}

static int64_t free_ones(hlk_semaphore *semaphore)
{
    int64_t permits = -1;
    return hlk_semaphore_available(semaphore, &permits) == HLK_OK ? permits : -1;
}

static hasplock::semaphore_guard take(hlk_semaphore *semaphore)
{
    hasplock::semaphore_guard taken(semaphore, 2, HLK_NOWAIT);
    return taken;
}

int semaphore_guard_cxx(hlk_client *client, hlk_semaphore *semaphore)
{
    hasplock::unique<hlk_semaphore> same(hlk_semaphore_create(client, hlk_semaphore_name(semaphore)));
    {
        hasplock::semaphore_guard one(same.get());
        CHECK(one && one.status() == HLK_OK && free_ones(semaphore) == 2);
        hasplock::semaphore_guard two = take(semaphore);
        CHECK(two && free_ones(semaphore) == 0);
        hasplock::semaphore_guard moved(std::move(two));
        CHECK(!two && moved && free_ones(semaphore) == 0);
        hasplock::semaphore_guard late(semaphore, 1, std::chrono::milliseconds(20));
        CHECK(!late && late.status() == HLK_TIMEOUT && late.release() == HLK_NOT_HOLDER);
        one = std::move(moved);
        CHECK(one && !moved && free_ones(semaphore) == 1);
        CHECK(one.release() == HLK_OK && free_ones(semaphore) == 3);
        CHECK(!one && one.release() == HLK_NOT_HOLDER);
    }
    try {
        const hasplock::acquire_opts opts = hasplock::acquire_opts().wait_for(std::chrono::milliseconds(0));
        hasplock::semaphore_guard taken(semaphore, 3, opts);
        CHECK(taken && free_ones(semaphore) == 0);
        throw std::runtime_error("thrown");
    } catch (const std::runtime_error &) {
        CHECK(free_ones(semaphore) == 3);
    }
    return 0;
}

/* Notes beside a lock: hlk_lock_write_note, hlk_lock_read_note, and notes in lists. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    fixture_begin(0);
    if (fixture.server->acl)
        raw(fixture.redis, "ACL SETUSER locks +scan"), raw(fixture.redis, "ACL SETUSER locks +type");
}

TestSuite(note, .init = start, .fini = fixture_end, .timeout = 60);

static hlk_lock *held(hlk_client *client, const char *name, int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    hlk_lock *lock = fixture_lock(client, name, &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    return lock;
}

/* The note's key exists. */
static bool is_there(hlk_lock *lock)
{
    char hold[192];
    const char *name = hlk_lock_name(lock);
    cr_assert_eq(hlk_lock_hold_id(lock, hold, sizeof hold), HLK_OK, "%s", hlk_last_error());
    return raw_int(fixture.redis, strchr(name, '{') ? "EXISTS hasplock_note::%s:%s" : "EXISTS hasplock_note:{%s}:%s",
                   name, hold) == 1;
}

static void write_note(hlk_lock *lock, const char *text)
{
    cr_assert_eq(hlk_lock_write_note(lock, text, 60000), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(is_there(lock) == (text != NULL));
}

static const char *note_of(hlk_lock *lock, int64_t *left_ms)
{
    static char text[HLK_NOTE_MAX + 1];
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_read_note(lock, state.holder, text, sizeof text, left_ms), HLK_OK, "%s", hlk_last_error());
    return text;
}

Test(note, is_read_by_others_until_it_is_removed)
{
    static const char *const names[] = { "t", "t{1}" };
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    for (int i = 0; i < 2; i++) {
        hlk_lock *lock = held(client, names[i], HLK_LOCK_PLAIN), *view = fixture_lock(other, names[i], NULL);
        int64_t left_ms = 77;
        cr_assert_str_eq(note_of(view, &left_ms), "");
        cr_assert_eq(left_ms, 0);
        write_note(lock, "import of\nMarch");
        cr_assert_str_eq(note_of(view, &left_ms), "import of\nMarch");
        cr_assert(left_ms > 0 && left_ms <= 60000);
        write_note(lock, NULL);
        cr_assert_str_eq(note_of(view, NULL), "");
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
}

Test(note, is_of_the_holder_that_query_names)
{
    static const int kinds[] = { HLK_LOCK_PLAIN,  HLK_LOCK_FAIR, HLK_LOCK_SPIN,
                                 HLK_LOCK_STRING, HLK_LOCK_READ, HLK_LOCK_WRITE };
    hlk_client *client = fixture_open(NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        hlk_lock *lock = held(client, "t", kinds[i]);
        write_note(lock, "import");
        cr_assert_str_eq(note_of(lock, NULL), "import", "kind %d", kinds[i]);
        write_note(lock, NULL);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
}

Test(note, is_of_a_permit_too)
{
    hlk_client *client = fixture_open(NULL);
    hlk_permits *permits = hlk_permits_create(client, "t", NULL);
    hlk_lock *permit = hlk_permits_permit(permits);
    cr_assert_eq(hlk_permits_try_set(permits, 2), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    write_note(permit, "import");
    cr_assert_str_eq(note_of(permit, NULL), "import");
    write_note(permit, NULL);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    hlk_permits_destroy(permits);
    raw(fixture.redis, "DEL t");
}

static int take_note(const struct hlk_listed *lock, void *ctx)
{
    char *all = ctx;
    size_t len = strlen(all);
    snprintf(all + len, 200 - len, "%s:%s:%d ", lock->name, lock->note, lock->note_left_ms > 0);
    return 0;
}

static const char *listed(hlk_client *client, int kind)
{
    static char all[200];
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    opts.kind = kind;
    all[0] = '\0';
    cr_assert_eq(hlk_lock_list(client, &opts, take_note, all), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(opts.refused, 0);
    return all;
}

/* Its key is a string, and no lock. */
Test(note, is_in_lists_and_is_no_lock_itself)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held(client, "t", HLK_LOCK_PLAIN);
    cr_assert_str_eq(listed(client, HLK_LIST_EVERY), "t::0 ");
    write_note(lock, "hlk-a-1-x:1");
    cr_assert_str_eq(listed(client, HLK_LIST_EVERY), "t:hlk-a-1-x:1:1 ");
    cr_assert_str_eq(listed(client, HLK_LIST_NUMBERS), "t:hlk-a-1-x:1:1 ");
    cr_assert_str_eq(listed(client, HLK_LOCK_STRING), "");
    cr_assert_str_eq(listed(client, 0), "t::0 ");
    write_note(lock, NULL);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(note, needs_a_hold)
{
    char long_note[HLK_NOTE_MAX + 2], text[8] = "x";
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_write_note(lock, "import", 60000), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_write_note(lock, NULL, 0), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    memset(long_note, 'x', sizeof long_note);
    long_note[sizeof long_note - 1] = '\0';
    cr_assert_eq(hlk_lock_write_note(lock, long_note, 60000), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_write_note(lock, "", 60000), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_write_note(lock, "import", 99), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_write_note(NULL, "import", 60000), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_read_note(lock, "", text, sizeof text, NULL), HLK_E_INVALID);
    cr_assert_str_empty(text);
    cr_assert_eq(hlk_lock_read_note(lock, NULL, text, sizeof text, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_read_note(lock, "hlk-a-1-x:1", NULL, 0, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_read_note(NULL, "hlk-a-1-x:1", text, sizeof text, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(note, is_cut_to_the_buffer)
{
    char text[4];
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held(client, "t", HLK_LOCK_PLAIN);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    write_note(lock, "import");
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_eq(hlk_lock_read_note(lock, state.holder, text, sizeof text, NULL), HLK_OK);
    cr_assert_str_eq(text, "imp");
    write_note(lock, NULL);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(note, of_a_lost_hold_can_be_removed)
{
    char key[300] = "hasplock_note:{t}:";
    size_t len = strlen(key);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held(client, "t", HLK_LOCK_PLAIN);
    cr_assert_eq(hlk_lock_hold_id(lock, key + len, sizeof key - len), HLK_OK);
    write_note(lock, "import");
    cr_assert_eq(hlk_lock_break(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_write_note(lock, "import", 60000), HLK_LOST);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS %s", key), 1);
    cr_assert_eq(hlk_lock_write_note(lock, NULL, 0), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(raw_int(fixture.redis, "EXISTS %s", key) == 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    raw(fixture.redis, "DEL redisson_lock_token:{t} hasplock_queue:{t}");
}

/* Neither the write nor the removal waits: the answer to the release says that both have run. */
Test(note, is_gone_when_the_release_is_answered)
{
    hlk_client *client = fixture_open(NULL);
    for (int i = 0; i < 100; i++) {
        hlk_lock *lock = held(client, "t", HLK_LOCK_PLAIN);
        cr_assert_eq(hlk_lock_write_note(lock, "import", 60000), HLK_OK);
        cr_assert_eq(hlk_lock_write_note(lock, NULL, 0), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    }
}

/* The thread's last error, and errors that are passed up. */
#include "base/error.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

Test(error, there_is_none_at_first)
{
    cr_assert_str_eq(hlk_last_error(), "");
    cr_assert_eq(hlk_last_status(), HLK_OK);
}

Test(error, last_is_what_was_set)
{
    cr_assert_eq(hlk_last_set(HLK_TIMEOUT, "not acquired in %d ms", 20), HLK_TIMEOUT);
    cr_assert_str_eq(hlk_last_error(), "not acquired in 20 ms");
    cr_assert_eq(hlk_last_status(), HLK_TIMEOUT);
}

Test(error, the_latest_replaces_the_one_before)
{
    hlk_last_set(HLK_TIMEOUT, "a long story about a wait that took too long");
    hlk_last_set(HLK_BUSY, "short");
    cr_assert_str_eq(hlk_last_error(), "short");
    cr_assert_eq(hlk_last_status(), HLK_BUSY);
}

static void *set_in_thread(void *out)
{
    int *fresh = out;
    *fresh = hlk_last_status() == HLK_OK && !*hlk_last_error();
    hlk_last_set(HLK_E_SERVER, "of the other thread");
    return NULL;
}

Test(error, each_thread_has_its_own)
{
    pthread_t thread;
    int fresh = 0;
    hlk_last_set(HLK_BUSY, "of this thread");
    cr_assert_eq(pthread_create(&thread, NULL, set_in_thread, &fresh), 0);
    pthread_join(thread, NULL);
    cr_assert(fresh);
    cr_assert_str_eq(hlk_last_error(), "of this thread");
    cr_assert_eq(hlk_last_status(), HLK_BUSY);
}

Test(error, a_story_may_be_told_around_the_last_one)
{
    hlk_last_set(HLK_E_CONNECT, "connection refused");
    hlk_last_set(HLK_E_CONNECT, "acquire \"t\": %s", hlk_last_error());
    cr_assert_str_eq(hlk_last_error(), "acquire \"t\": connection refused");
}

Test(error, of_a_null_handle_names_what_is_null)
{
    hlk_last_set(HLK_BUSY, "acquire \"t\": held by others");
    cr_assert_eq(hlk_last_null("acquire", "lock"), HLK_E_INVALID);
    cr_assert_str_eq(hlk_last_error(), "acquire: lock is NULL");
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
}

/* However often it is called, and whatever has failed since. */
Test(error, of_a_null_handle_names_the_creation_that_failed)
{
    static const char expected[] =
        "acquire: lock is NULL; the last creation that failed in this thread: create lock \"t\": no fencing tokens";
    hlk_last_set(HLK_E_INVALID, "create latch \"l\": no memory");
    hlk_last_set(HLK_E_INVALID, "create lock \"t\": no fencing tokens");
    for (int i = 0; i < 100; i++) {
        hlk_last_set(HLK_BUSY, "acquire \"other\": held by others");
        cr_assert_eq(hlk_last_null("acquire", "lock"), HLK_E_INVALID);
        cr_assert_str_eq(hlk_last_error(), expected);
    }
}

/* A client that could not be opened makes no locks: the first cause is named, once. */
Test(error, of_a_null_client_is_not_the_cause_of_the_next)
{
    hlk_last_set(HLK_E_CONNECT, "open redis://h: connection refused");
    for (int i = 0; i < 3; i++) {
        hlk_last_null("create lock", "client");
        cr_assert_str_eq(hlk_last_error(), "create lock: client is NULL; the last creation that failed in this "
                                           "thread: open redis://h: connection refused");
    }
    hlk_last_null("acquire", "lock");
    cr_assert_str_eq(hlk_last_error(), "acquire: lock is NULL; the last creation that failed in this thread: "
                                       "open redis://h: connection refused");
}

Test(error, is_one_line_without_terminal_codes)
{
    struct hlk_error error;
    hlk_error_set(&error, HLK_E_SERVER, "%s", "-ERR a\r\nb\033[31m\x7f\xc2\x9b \xc3\xa4");
    cr_assert_str_eq(error.text, "-ERR a\\x0d\\x0ab\\x1b[31m\\x7f\\xc2\\x9b \xc3\xa4");
}

Test(error, one_that_is_too_long_ends_with_dots)
{
    char text[2 * HLK_ERROR_TEXT];
    struct hlk_error error;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    hlk_error_set(&error, HLK_E_SERVER, "%s", text);
    cr_assert_eq(strlen(error.text), HLK_ERROR_TEXT - 1u);
    cr_assert_str_eq(error.text + HLK_ERROR_TEXT - 6, "xx...");
}

Test(error, one_that_just_fits_has_no_dots)
{
    char text[HLK_ERROR_TEXT];
    struct hlk_error error;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    hlk_error_set(&error, HLK_E_SERVER, "%s", text);
    cr_assert_str_eq(error.text, text);
}

Test(error, setting_keeps_errno)
{
    struct hlk_error error;
    errno = ENOENT;
    hlk_error_set(&error, HLK_E_OS, "open: %s", strerror(errno));
    hlk_last_set(HLK_E_OS, "open: %s", strerror(errno));
    cr_assert_eq(errno, ENOENT);
}

Test(error, nobody_has_to_listen)
{
    cr_assert_eq(hlk_error_set(NULL, HLK_E_NOMEM, "no memory"), HLK_E_NOMEM);
    cr_assert_eq(hlk_last_status(), HLK_OK);
}

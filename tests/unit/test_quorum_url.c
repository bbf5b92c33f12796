/* URLs of several masters: what each master's own URL is, and the options. */
#include "quorum/url.h"

#include <criterion/criterion.h>
#include <string.h>

static struct hlk_quorum_url url;
static struct hlk_error error;

static void forget(void)
{
    hlk_quorum_url_fini(&url);
}

TestSuite(quorum_url, .fini = forget, .timeout = 20);

static void parsed(const char *text)
{
    hlk_quorum_url_fini(&url);
    cr_assert(hlk_quorum_url_is(text));
    cr_assert_eq(hlk_quorum_url_parse(&url, text, &error), HLK_OK, "%s: %s", text, error.text);
}

static void refused(const char *text, const char *why)
{
    cr_assert(hlk_quorum_url_is(text));
    cr_assert_eq(hlk_quorum_url_parse(&url, text, &error), HLK_E_INVALID, "%s", text);
    cr_assert_not_null(strstr(error.text, why), "%s: %s", text, error.text);
    cr_assert_null(strstr(error.text, "secret"));
}

Test(quorum_url, has_a_url_of_each_master)
{
    parsed("redlock://a,b:7000,user:secret@[::1]:7001/3,unix:/run/d.sock");
    cr_assert_eq(url.count, 4);
    cr_assert_str_eq(url.urls[0], "redis://a");
    cr_assert_str_eq(url.urls[1], "redis://b:7000");
    cr_assert_str_eq(url.urls[2], "redis://user:secret@[::1]:7001/3");
    cr_assert_str_eq(url.urls[3], "unix:/run/d.sock");
    parsed("REDLOCKS://a,b");
    cr_assert_str_eq(url.urls[1], "rediss://b");
}

Test(quorum_url, is_none_of_other_schemes)
{
    cr_assert_not(hlk_quorum_url_is(NULL));
    cr_assert_not(hlk_quorum_url_is(""));
    cr_assert_not(hlk_quorum_url_is("redis://a"));
    cr_assert_not(hlk_quorum_url_is("redlock:a"));
}

Test(quorum_url, has_options)
{
    parsed("redlock://a,b,c?ttl_ms=20000&node_timeout_ms=50&clock_drift_factor=0.025&retry_count=3&retry_delay_ms=100&"
           "retry_jitter_ms=7&max_renewals=9&restart_delay_ms=60000");
    cr_assert_eq(url.opts.ttl_ms, 20000);
    cr_assert_eq(url.opts.node_timeout_ms, 50);
    cr_assert_float_eq(url.opts.clock_drift_factor, 0.025, 1e-12);
    cr_assert_eq(url.opts.retry_count, 3);
    cr_assert_eq(url.opts.retry_delay_ms, 100);
    cr_assert_eq(url.opts.retry_jitter_ms, 7);
    cr_assert_eq(url.opts.max_renewals, 9);
    cr_assert_eq(url.opts.restart_delay_ms, 60000);
    cr_assert_eq(url.count, 3);
    cr_assert_str_eq(url.urls[2], "redis://c");
}

Test(quorum_url, has_zeros_that_are_zeros)
{
    parsed("redlock://a?clock_drift_factor=0&retry_count=0&retry_jitter_ms=0&max_renewals=0&restart_delay_ms=0");
    cr_assert_lt(url.opts.clock_drift_factor, 0);
    cr_assert_lt(url.opts.retry_count, 0);
    cr_assert_lt(url.opts.retry_jitter_ms, 0);
    cr_assert_lt(url.opts.max_renewals, 0);
    cr_assert_lt(url.opts.restart_delay_ms, 0);
}

Test(quorum_url, without_options_has_the_defaults)
{
    parsed("redlock://a,b,c?");
    cr_assert_eq(url.opts.size, sizeof url.opts);
    cr_assert_eq(url.opts.ttl_ms, 0);
    cr_assert_eq(url.opts.restart_delay_ms, 0);
}

Test(quorum_url, is_refused_with_the_reason)
{
    refused("redlock://", "a master is missing");
    refused("redlock://a,,secret", "a master is missing");
    refused("redlock://a,b,", "a master is missing");
    refused("redlock://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "more than 15 masters");
    refused("redlock://a?secret=1", "known options are ttl_ms");
    refused("redlock://a?ttl_ms", "ttl_ms is not a number");
    refused("redlock://a?ttl_ms=", "ttl_ms is not a number");
    refused("redlock://a?ttl_ms=0", "ttl_ms is not a number");
    refused("redlock://a?ttl_ms=1.5", "ttl_ms is not a number");
    refused("redlock://a?ttl_ms=-1", "ttl_ms is not a number");
    refused("redlock://a?ttl_ms=0x10", "ttl_ms is not a number");
    refused("redlock://a?retry_count=3000000000", "retry_count is not a number");
    refused("redlock://a?clock_drift_factor=0.0.1", "clock_drift_factor is not a number");
    refused("redlock://a?clock_drift_factor=.5", "clock_drift_factor is not a number");
    refused("redlock://a?ttl_ms=1000&&retry_count=1", "known options are");
}

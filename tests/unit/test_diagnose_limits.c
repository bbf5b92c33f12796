/* What each check of hlk_diagnose makes of good and bad answers: clock, latency, limits; and what is measured. */
#include "exam_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define OK HLK_FINDING_OK
#define NOTE HLK_FINDING_NOTE
#define WARNING HLK_FINDING_WARNING
#define PROBLEM HLK_FINDING_PROBLEM

TestSuite(limits, .init = exam_start, .fini = exam_stop);

/* --- clock */

Test(limits, clock_offset_is_a_note_and_beyond_5_min_a_warning)
{
    exam_judge(hlk_check_clock_offset, OK, "0.5 ms ahead of this host's (+- 0.1 ms)", "do not depend on it", NULL);
    exam.clocks.offset_us = -20000000;
    exam_judge(hlk_check_clock_offset, NOTE, "20.0 s behind this host's", "do not depend on it", "NTP");
    exam.clocks.offset_us = 301000000;
    exam_judge(hlk_check_clock_offset, WARNING, "301.0 s ahead of", "more than 5 min", "NTP");
    exam.clocks.offset_us = 1500000; /* may be no more than a second */
    exam.clocks.offset_error_us = 600000;
    exam_judge(hlk_check_clock_offset, OK, "1500.0 ms ahead of", "do not depend on it", NULL);
}

Test(limits, clock_rate_beyond_what_is_allowed_for_is_a_problem)
{
    exam_judge(hlk_check_clock_rate, OK, "gained +0.1 ms", "2 % fast", NULL);
    exam.clocks.gain_us = 5000;
    exam_judge(hlk_check_clock_rate, WARNING, "gained +5.0 ms", "leases end early", "slew");
    exam.clocks.gain_us = 23000;
    exam_judge(hlk_check_clock_rate, PROBLEM, "gained +23.0 ms", "leases end early", "slew");
    exam.clocks.gain_us = -3000000;
    exam_judge(hlk_check_clock_rate, PROBLEM, "gained -3000.0 ms", "kept for longer", "slew");
    exam.clocks.gain_us = 23000; /* the round trips were so long that it says nothing */
    exam.clocks.gain_error_us = 30000;
    exam_judge(hlk_check_clock_rate, OK, "gained +23.0 ms", "2 % fast", NULL);
}

Test(limits, clock_that_cannot_be_read_is_not_known)
{
    exam.clocks = (struct hlk_clocks){ 0 };
    exam_judge(hlk_check_clock_offset, NOTE, "not known", "do not depend", "+time");
    exam_judge(hlk_check_clock_rate, NOTE, "not known", "2 % fast", "+time");
}

Test(limits, clocks_are_what_two_samples_say)
{
    struct hlk_time_sample first = { 1000000, 1000200, 5000000, 9000100 };
    struct hlk_time_sample last[] = { { 2000000, 2000900, 6000000, 10020000 },
                                      { 2001000, 2001400, 6001000, 10011200 } };
    struct hlk_clocks clocks = hlk_clocks(&first, hlk_time_best(last, 2));
    cr_assert_eq(clocks.over_us, 1001100);
    cr_assert_eq(clocks.offset_us, 4010000);
    cr_assert_eq(clocks.offset_error_us, 200);
    cr_assert_eq(clocks.gain_us, 10000);
    cr_assert_eq(clocks.gain_error_us, 300);
}

Test(limits, round_trips_are_percentiles)
{
    int64_t us[200];
    for (int i = 0; i < 200; i++)
        us[i] = 200 - i;
    struct hlk_round_trips trips = hlk_round_trips(us, 200);
    cr_assert_eq(trips.n, 200);
    cr_assert_eq(trips.p50_us, 100);
    cr_assert_eq(trips.p99_us, 198);
    cr_assert_eq(trips.max_us, 200);
    cr_assert_eq(hlk_round_trips(us, 1).p99_us, 1);
    cr_assert_eq(hlk_round_trips(us, 0).n, 0);
}

/* --- latency */

#define SLOWLOG(us) "*1\n*6\n:14\n:1700000000\n:" us "\n*2\n$4\nKEYS\n$1\n*\n$14\n127.0.0.1:6379\n$0\n\n"

Test(limits, slow_commands_are_found_in_the_slowlog)
{
    exam_judge(hlk_check_slow_commands, OK, "none is recorded", "answers nobody", NULL);
    exam_answer(HLK_ASK_SLOWLOG, SLOWLOG("20000"));
    exam_judge(hlk_check_slow_commands, OK, "20.0 ms: KEYS", "answers nobody", NULL);
    exam_answer(HLK_ASK_SLOWLOG, SLOWLOG("250000"));
    exam_judge(hlk_check_slow_commands, WARNING, "250.0 ms: KEYS", "answers nobody", "SLOWLOG GET");
    exam_answer(HLK_ASK_SLOWLOG, SLOWLOG("20001000"));
    exam_judge(hlk_check_slow_commands, PROBLEM, "20001.0 ms: KEYS", "was lost", "SLOWLOG GET");
}

Test(limits, slow_commands_are_found_in_latency_or_commandstats)
{
    exam_answer(HLK_ASK_LATENCY, "*1\n*4\n$4\nfork\n:1700000000\n:130\n:400\n");
    exam_judge(hlk_check_slow_commands, WARNING, "400.0 ms: fork", "answers nobody", "LATENCY");
    exam_answer(HLK_ASK_LATENCY, NULL);
    exam_string(HLK_ASK_COMMANDSTATS, "cmdstat_keys:calls=2,usec=300000,usec_per_call=150000.00,x=1\n");
    exam_judge(hlk_check_slow_commands, WARNING, "150.0 ms: keys on average", "answers nobody", "SLOWLOG");
}

Test(limits, slow_commands_are_unknown_without_rights_to_ask)
{
    exam_refuse(HLK_ASK_SLOWLOG);
    exam_refuse(HLK_ASK_LATENCY);
    exam_refuse(HLK_ASK_COMMANDSTATS);
    exam_judge(hlk_check_slow_commands, NOTE, "not known: this user may not run SLOWLOG GET", "answers nobody",
               "+slowlog|get");
}

Test(limits, scripts_that_are_never_busy_are_a_warning)
{
    exam_judge(hlk_check_busy_scripts, OK, "5000 ms", "BUSY", NULL);
    exam_config(HLK_ASK_BUSY, "0");
    exam_judge(hlk_check_busy_scripts, WARNING, "0 ms: never", "BUSY", "5000");
    exam_config(HLK_ASK_BUSY, "60000");
    exam_judge(hlk_check_busy_scripts, WARNING, "60000 ms", "BUSY", "5000");
    exam_refuse(HLK_ASK_BUSY);
    exam_judge(hlk_check_busy_scripts, NOTE, "may not run CONFIG GET", "BUSY", "+config|get");
}

/* --- connections */

Test(limits, clients_that_have_no_room_are_a_problem)
{
    exam_judge(hlk_check_clients, OK, "3 of 10000", "two connections", NULL);
    exam_info("connected_clients:8001\n");
    exam_judge(hlk_check_clients, WARNING, "8001 of 10000", "two connections", "maxclients");
    exam_info("connected_clients:9999\n");
    exam_judge(hlk_check_clients, PROBLEM, "9999 of 10000", "two connections", "maxclients");
}

Test(limits, small_output_buffer_of_a_subscriber_is_a_warning)
{
    exam_judge(hlk_check_output_buffers, OK, "pubsub 33554432 bytes, or 8388608 for 60 s", "misses its grants", NULL);
    exam_config(HLK_ASK_BUFFERS, "normal 0 0 0 slave 1 1 1 pubsub 0 0 0");
    exam_judge(hlk_check_output_buffers, OK, "pubsub 0 bytes", "misses its grants", NULL);
    exam_config(HLK_ASK_BUFFERS, "normal 0 0 0 slave 1 1 1 pubsub 1024 512 1");
    exam_judge(hlk_check_output_buffers, WARNING, "pubsub 1024 bytes, or 512 for 1 s", "misses", "pubsub 33554432");
    exam_config(HLK_ASK_BUFFERS, "normal 4096 0 0 slave 1 1 1 pubsub 0 0 0");
    exam_judge(hlk_check_output_buffers, WARNING, "normal 4096 bytes", "ends a connection", "normal 0 0 0");
    exam_refuse(HLK_ASK_BUFFERS);
    exam_judge(hlk_check_output_buffers, NOTE, "may not run CONFIG GET", "misses its grants", "+config|get");
}

Test(limits, idle_timeout_shorter_than_a_renewal_is_a_warning)
{
    exam_judge(hlk_check_idle_timeout, OK, "none", "no idle connection", NULL);
    exam_config(HLK_ASK_TIMEOUT, "10");
    exam_judge(hlk_check_idle_timeout, WARNING, "10 s", "each 10 s: each one needs a new", "timeout 0");
    exam_config(HLK_ASK_TIMEOUT, "11");
    exam_judge(hlk_check_idle_timeout, OK, "11 s", "each 10 s.", NULL);
    exam.lease_ms = 60000;
    exam_judge(hlk_check_idle_timeout, WARNING, "11 s", "each 20 s", "timeout 0");
}

Test(limits, keepalive_that_never_comes_is_a_warning)
{
    exam_judge(hlk_check_keepalive, OK, "300 s", "host that is gone", NULL);
    exam_config(HLK_ASK_KEEPALIVE, "0");
    exam_judge(hlk_check_keepalive, WARNING, "0 s: never", "host that is gone", "tcp-keepalive 300");
    exam_config(HLK_ASK_KEEPALIVE, "7200");
    exam_judge(hlk_check_keepalive, WARNING, "7200 s", "host that is gone", "tcp-keepalive 300");
}

/* The measure of pauses, by which tests of real time are judged. */
#include "support/pause.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

Test(pause, is_measured_while_the_process_is_stopped)
{
    enum { STOPPED_MS = 300 };
    int status;
    pause_watch();
    int64_t began = test_now_ms();
    pid_t self = getpid(), child = fork();
    if (child == 0) {
        kill(self, SIGSTOP);
        test_sleep_ms(STOPPED_MS);
        kill(self, SIGCONT);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    int64_t ended = test_now_ms();
    cr_assert_gt(pause_longest_ms(began), STOPPED_MS * 3 / 4);
    cr_assert_lt(running_between_ms(began, ended), ended - began - STOPPED_MS * 3 / 4);
}

static int rounds;

static const char *is_late_once(void)
{
    if (rounds++ == 0)
        test_sleep_ms(20);
    return rounds == 1 ? "late" : NULL;
}

Test(pause, of_no_length_that_matters_repeats_nothing)
{
    cr_assert_str_eq(pause_repeat(WAIT_MS, is_late_once), "late");
    cr_assert_eq(rounds, 1);
}

Test(pause, beyond_the_margin_repeats_the_round)
{
    cr_assert_null(pause_repeat(-1, is_late_once));
    cr_assert_eq(rounds, 2);
}

/* criterion.h - the part of Criterion that our tests use, without Criterion: for the sanitizers and valgrind.
 *
 * Criterion 2.4.1 cannot start under ThreadSanitizer, and its own threads are noise for helgrind. It forks while they
 * run: one that holds a lock of AddressSanitizer's allocator at that moment (gcc 12 does not see to it) leaves a test
 * that waits for ever, seen in one run of the suite on a machine that was held up by its host. The same test sources
 * compile against this file instead when tests/shim stands first in the include path; main.c beside it runs each test
 * in a process of its own and prints Criterion's closing line.
 *
 * The subset: Test, TestSuite (.init .fini .signal .exit_code .timeout .disabled .description), the cr_assert and
 * cr_expect families below, cr_log_info and its like, cr_skip_test. Assert only in the test's own thread.
 */
#ifndef HLK_SHIM_CRITERION_H
#define HLK_SHIM_CRITERION_H

#pragma GCC system_header /* empty variadic arguments, as in Criterion's own headers */

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shim_options {
    int unused; /* what an empty list of options sets */
    void (*init)(void), (*fini)(void);
    int signal, exit_code; /* how the test is expected to end */
    bool disabled;
    double timeout; /* seconds; 0: the suite's, else that of the command line */
    const char *description;
};

struct shim_test {
    const char *suite, *name;
    void (*run)(void);
    struct shim_options options;
    struct shim_test *next;
};

struct shim_suite {
    const char *name;
    struct shim_options options;
    struct shim_suite *next;
};

void shim_add_test(struct shim_test *test);
void shim_add_suite(struct shim_suite *suite);
void shim_fail(bool fatal, const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void shim_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define Test(Suite, Name, ...)                                                                                         \
    static void Suite##_##Name##_shim_run(void);                                                                       \
    static struct shim_test Suite##_##Name##_shim_test = {                                                             \
        .suite = #Suite, .name = #Name, .run = Suite##_##Name##_shim_run, .options = { .unused = 0, __VA_ARGS__ }     \
    };                                                                                                                 \
    __attribute__((constructor)) static void Suite##_##Name##_shim_add(void)                                           \
    {                                                                                                                  \
        shim_add_test(&Suite##_##Name##_shim_test);                                                                    \
    }                                                                                                                  \
    static void Suite##_##Name##_shim_run(void)

#define TestSuite(Suite, ...)                                                                                          \
    static struct shim_suite Suite##_shim_suite = { .name = #Suite, .options = { .unused = 0, __VA_ARGS__ } };        \
    __attribute__((constructor)) static void Suite##_shim_add(void)                                                    \
    {                                                                                                                  \
        shim_add_suite(&Suite##_shim_suite);                                                                           \
    }                                                                                                                  \
    struct shim_suite

static inline bool shim_str_eq(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

#define SHIM_CHECK(Fatal, What, Condition, ...)                                                                        \
    ((Condition) ? (void)0 : shim_fail((Fatal), __FILE__, __LINE__, (What), " " __VA_ARGS__))

#define cr_assert(Condition, ...)         SHIM_CHECK(true, #Condition, (Condition), __VA_ARGS__)
#define cr_assert_not(Condition, ...)     SHIM_CHECK(true, "not " #Condition, !(Condition), __VA_ARGS__)
#define cr_assert_eq(A, B, ...)           SHIM_CHECK(true, #A " == " #B, (A) == (B), __VA_ARGS__)
#define cr_assert_neq(A, B, ...)          SHIM_CHECK(true, #A " != " #B, (A) != (B), __VA_ARGS__)
#define cr_assert_lt(A, B, ...)           SHIM_CHECK(true, #A " < " #B, (A) < (B), __VA_ARGS__)
#define cr_assert_leq(A, B, ...)          SHIM_CHECK(true, #A " <= " #B, (A) <= (B), __VA_ARGS__)
#define cr_assert_gt(A, B, ...)           SHIM_CHECK(true, #A " > " #B, (A) > (B), __VA_ARGS__)
#define cr_assert_geq(A, B, ...)          SHIM_CHECK(true, #A " >= " #B, (A) >= (B), __VA_ARGS__)
#define cr_assert_null(A, ...)            SHIM_CHECK(true, #A " is NULL", (A) == NULL, __VA_ARGS__)
#define cr_assert_not_null(A, ...)        SHIM_CHECK(true, #A " is not NULL", (A) != NULL, __VA_ARGS__)
#define cr_assert_float_eq(A, B, Eps, ...) SHIM_CHECK(true, #A " is about " #B, fabs((A) - (B)) <= (Eps), __VA_ARGS__)
#define cr_assert_str_eq(A, B, ...)       SHIM_CHECK(true, #A " is " #B, shim_str_eq((A), (B)), __VA_ARGS__)
#define cr_assert_str_neq(A, B, ...)      SHIM_CHECK(true, #A " is not " #B, !shim_str_eq((A), (B)), __VA_ARGS__)
#define cr_assert_str_empty(A, ...)       SHIM_CHECK(true, #A " is empty", (A)[0] == '\0', __VA_ARGS__)
#define cr_assert_str_not_empty(A, ...)   SHIM_CHECK(true, #A " is not empty", (A)[0] != '\0', __VA_ARGS__)
#define cr_assert_arr_eq(A, B, Size, ...) SHIM_CHECK(true, #A " is " #B, memcmp((A), (B), (Size)) == 0, __VA_ARGS__)
#define cr_assert_arr_neq(A, B, Size, ...) SHIM_CHECK(true, #A " is not " #B, memcmp((A), (B), (Size)), __VA_ARGS__)
#define cr_assert_fail(...)               shim_fail(true, __FILE__, __LINE__, "fail", " " __VA_ARGS__)
#define cr_fatal(...)                     cr_assert_fail(__VA_ARGS__)

#define cr_expect(Condition, ...)         SHIM_CHECK(false, #Condition, (Condition), __VA_ARGS__)
#define cr_expect_not(Condition, ...)     SHIM_CHECK(false, "not " #Condition, !(Condition), __VA_ARGS__)
#define cr_expect_eq(A, B, ...)           SHIM_CHECK(false, #A " == " #B, (A) == (B), __VA_ARGS__)
#define cr_expect_neq(A, B, ...)          SHIM_CHECK(false, #A " != " #B, (A) != (B), __VA_ARGS__)
#define cr_expect_lt(A, B, ...)           SHIM_CHECK(false, #A " < " #B, (A) < (B), __VA_ARGS__)
#define cr_expect_leq(A, B, ...)          SHIM_CHECK(false, #A " <= " #B, (A) <= (B), __VA_ARGS__)
#define cr_expect_gt(A, B, ...)           SHIM_CHECK(false, #A " > " #B, (A) > (B), __VA_ARGS__)
#define cr_expect_geq(A, B, ...)          SHIM_CHECK(false, #A " >= " #B, (A) >= (B), __VA_ARGS__)
#define cr_expect_null(A, ...)            SHIM_CHECK(false, #A " is NULL", (A) == NULL, __VA_ARGS__)
#define cr_expect_not_null(A, ...)        SHIM_CHECK(false, #A " is not NULL", (A) != NULL, __VA_ARGS__)
#define cr_expect_str_eq(A, B, ...)       SHIM_CHECK(false, #A " is " #B, shim_str_eq((A), (B)), __VA_ARGS__)
#define cr_expect_str_neq(A, B, ...)      SHIM_CHECK(false, #A " is not " #B, !shim_str_eq((A), (B)), __VA_ARGS__)
#define cr_expect_fail(...)               shim_fail(false, __FILE__, __LINE__, "fail", " " __VA_ARGS__)
#define cr_fail(...)                      cr_expect_fail(__VA_ARGS__)

#define cr_log_info(...)  (fputs("[INFO] ", stderr), fprintf(stderr, __VA_ARGS__), (void)fputc('\n', stderr))
#define cr_log_warn(...)  (fputs("[WARN] ", stderr), fprintf(stderr, __VA_ARGS__), (void)fputc('\n', stderr))
#define cr_log_error(...) (fputs("[ERR ] ", stderr), fprintf(stderr, __VA_ARGS__), (void)fputc('\n', stderr))
#define cr_log(Level, ...) cr_log_info(__VA_ARGS__)
#define cr_skip_test(...) shim_skip(" " __VA_ARGS__)
#define cr_skip(...)      shim_skip(" " __VA_ARGS__)

#endif

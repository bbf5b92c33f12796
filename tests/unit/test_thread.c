/* What the library keeps for each thread. */
#include "base/thread.h"

#include <criterion/criterion.h>
#include <pthread.h>

TestSuite(thread, .timeout = 20);

static int others_value;

/* Other code has used up all pthread keys. They are left alone, and a fork finds no context. */
Test(thread, is_none_in_a_process_without_a_free_pthread_key)
{
    pthread_key_t keys[4096];
    int n = 0;
    while (n < 4096 && pthread_key_create(&keys[n], NULL) == 0)
        cr_assert_eq(pthread_setspecific(keys[n++], &others_value), 0);
    cr_assert_null(hlk_thread_get());
    for (int i = 0; i < n; i++) {
        cr_assert_eq(pthread_getspecific(keys[i]), &others_value);
        pthread_key_delete(keys[i]);
    }
}

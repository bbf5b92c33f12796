/* no_lock.h - hashes that are no locks, as arguments of HSET t: more than one field, or a value that is no count of
 * holds. The third is a held read/write lock of Redisson's. */
#ifndef HLK_TEST_NO_LOCK_H
#define HLK_TEST_NO_LOCK_H

static const char *const no_locks[] = {
    "name bob mail x", "a 1 b 1", "mode read b983c153-7421-469a-addb-44fb92259a1b:31 1", "name bob", "apples 2",
    "sku:77 2", "a 0", "a -1", "a 1.5", "a 1x", "a 01",
};

enum { NO_LOCKS = sizeof no_locks / sizeof *no_locks };

#endif

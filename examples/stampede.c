/* stampede.c - many readers of a cache, and one that fills it: no stampede when an entry is missing. stampede [URL]
 *
 * Readers hold the lock of an entry to read, all at once. Who finds no entry holds it to write and looks again: another
 * one may have filled it meanwhile. So an entry is computed once, however many want it, and the others wait for it. The
 * writer then goes on as a reader, before any other writer can come (a downgrade). Here the readers are threads with
 * clients of their own, and the cache is in memory; else they are processes of many hosts, and it is in Redis, or in a
 * folder that they share. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define ENTRIES 3
#define READERS 4

static struct { /* each guarded by its lock, "report:<number>" */
    bool filled;
    int value, computed; /* computed: how often */
} cache[ENTRIES];

struct reader {
    hlk_client *client;
    pthread_t thread;
    int reads;
    bool failed;
};

static bool is_ok(struct reader *reader, enum hlk_status status)
{
    if (status == HLK_OK)
        return true;
    fprintf(stderr, "%s\n", hlk_last_error());
    reader->failed = true;
    return false;
}

static void compute(int entry)
{
    cache[entry].value = 10 * entry; /* in earnest it takes minutes */
    cache[entry].computed++;
    cache[entry].filled = true;
}

/* From reading to reading, by way of writing. False: it reads no more. */
static bool fill(struct reader *reader, int entry, hlk_lock *reading, hlk_lock *writing)
{
    if (!is_ok(reader, hlk_lock_release(reading)) || !is_ok(reader, hlk_lock_acquire(writing, HLK_FOREVER)))
        return false;
    if (!cache[entry].filled)
        compute(entry);
    bool reads = is_ok(reader, hlk_lock_acquire(reading, HLK_FOREVER)); /* at once: it holds the lock */
    return is_ok(reader, hlk_lock_release(writing)) && reads;
}

static void look_up(struct reader *reader, int entry)
{
    char name[32];
    snprintf(name, sizeof name, "report:%d", entry);
    hlk_rwlock *lock = hlk_rwlock_create(reader->client, name, NULL);
    hlk_lock *reading = hlk_rwlock_read(lock), *writing = hlk_rwlock_write(lock);
    bool reads = is_ok(reader, hlk_lock_acquire(reading, HLK_FOREVER));
    if (reads && !cache[entry].filled)
        reads = fill(reader, entry, reading, writing);
    if (reads) {
        reader->reads += cache[entry].value == 10 * entry;
        (void)is_ok(reader, hlk_lock_release(reading));
    }
    hlk_rwlock_destroy(lock);
}

static void *work(void *arg)
{
    struct reader *reader = arg;
    for (int i = 0; i < ENTRIES && !reader->failed; i++)
        look_up(reader, i);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "local:";
    static struct reader readers[READERS];
    int started = 0, reads = 0, computed = 0;
    for (bool ok = true; ok && started < READERS; started += ok)
        ok = is_ok(&readers[started], hlk_client_open(&readers[started].client, url, NULL)) &&
             pthread_create(&readers[started].thread, NULL, work, &readers[started]) == 0;
    for (int i = 0; i < started; i++) {
        pthread_join(readers[i].thread, NULL);
        reads += readers[i].reads;
    }
    for (int i = 0; i < ENTRIES; i++)
        computed += cache[i].computed;
    printf("%d reads, %d computed\n", reads, computed);
    for (int i = 0; i < READERS; i++)
        hlk_client_close(readers[i].client);
    return reads == READERS * ENTRIES && computed == ENTRIES ? 0 : 1;
}

/* fake_sentinel.h - answers a client's questions about every service with the address and epoch that a test gives it:
 * a sentinel that is wrong, or that nobody has asked to be right. */
#ifndef HLK_TEST_FAKE_SENTINEL_H
#define HLK_TEST_FAKE_SENTINEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_sentinel;

/* port_of_master 0: it knows no service. */
struct fake_sentinel *fake_sentinel_start(int port_of_master, uint64_t epoch);
void fake_sentinel_stop(struct fake_sentinel *fake);
int fake_sentinel_port(const struct fake_sentinel *fake);

void fake_sentinel_set(struct fake_sentinel *fake, int port_of_master, uint64_t epoch);     /* from now on */
/* In the next round; then again what it was before. */
void fake_sentinel_set_once(struct fake_sentinel *fake, int port_of_master, uint64_t epoch);
void fake_sentinel_publish(struct fake_sentinel *fake, const char *payload);    /* on +switch-master, to all */
/* Sends its clients messages about other services, as many as they read. It answers them in between. */
void fake_sentinel_flood(struct fake_sentinel *fake, bool on);
size_t fake_sentinel_flooded(struct fake_sentinel *fake);   /* bytes of it, so far */
bool fake_sentinel_was_told(struct fake_sentinel *fake, const char *user, const char *password);   /* by AUTH */
int fake_sentinel_asked(struct fake_sentinel *fake);        /* how often for the address */

#endif

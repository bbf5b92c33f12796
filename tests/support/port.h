/* port.h - a loopback port that stays ours while its server is down.
 *
 * Tests run beside each other, and each takes ports that are free. Without this a server that is killed and started
 * again finds another test's server at its address, and so does the client that is to find nobody.
 */
#ifndef HLK_TEST_PORT_H
#define HLK_TEST_PORT_H

/* A socket on a free port of 127.0.0.1, for the caller to close. It does not listen: whoever connects is refused until
 * a server listens there, which has to bind with SO_REUSEADDR, as Redis does. Nobody is given the port meanwhile. */
int port_reserve(int *port);

#endif

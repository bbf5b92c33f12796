/* port.h - reserves a loopback port while its server is down.
 *
 * Tests run in parallel, and each takes free ports. Without the reservation a server that is killed and restarted could
 * find another test's server at its address, and so could a client that must find none. */
#ifndef HLK_TEST_PORT_H
#define HLK_TEST_PORT_H

#include <stdbool.h>

/* A socket on a free port of 127.0.0.1, which the caller closes. It does not listen, so connections are refused until a
 * server listens there. That server must bind with SO_REUSEADDR, as Redis does. No other program gets the port
 * meanwhile. */
int port_reserve(int *port);

/* Connections to it are refused, and nobody else can listen there. */
bool port_is_reserved(int port);

#endif

/* netns.h - two hosts on this machine: network namespaces of the test's own, with links between them that can be cut.
 * Needs root, ip (iproute2) and nft (nftables); the test ends without them.
 *
 *     netns_begin(3);                    this thread, and what it starts, is at the servers' host from here on
 *     ... start servers that listen at netns_address(0), (1), (2)
 *     netns_at_clients();
 *     ... open clients: a socket belongs to the host at which its thread was started
 *     netns_at_servers();
 *     netns_unplug(1);
 */
#ifndef HLK_TEST_NETNS_H
#define HLK_TEST_NETNS_H

#define NETNS_CLIENT "10.99.0.2" /* the clients' end of link 0 */

void netns_begin(int links);
void netns_at_servers(void);
void netns_at_clients(void);

/* The servers' end of a link. Valid until this thread's fourth call after it. */
const char *netns_address(int link);

/* --- the calling thread is at the servers' host, before and after --- */

void netns_unplug(int link); /* what is sent is lost, in both directions; connections stay */
void netns_plug_in(int link);

/* Packets in one direction are lost, until netns_pass: what comes from this port of a server (answers), goes to it
 * (requests), or comes to this port of a client. One for each port at a time. */
void netns_drop_from(int port);
void netns_drop_to(int port);
void netns_drop_at_client(int port);
void netns_pass(int port);

#endif

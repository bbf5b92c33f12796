#include "support/netns.h"

#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int servers, clients;

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0)
        test_give_up("%s: failed (ip of iproute2, nft of nftables)", command);
}

static int enter_new(void)
{
    if (unshare(CLONE_NEWNET) != 0)
        test_give_up("network namespaces: %s (they need root)", strerror(errno));
    shell("ip link set lo up");
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

static void enter(int host)
{
    if (setns(host, CLONE_NEWNET) != 0)
        test_give_up("setns: %s", strerror(errno));
}

void netns_at_servers(void)
{
    enter(servers);
}

void netns_at_clients(void)
{
    enter(clients);
}

void netns_begin(int links)
{
    servers = enter_new();
    clients = enter_new();
    for (int i = 0; i < links; i++) {
        netns_at_servers();
        shell("ip link add s%d type veth peer name c%d netns /proc/%d/fd/%d", i, i, getpid(), clients);
        shell("ip addr add 10.99.%d.1/24 dev s%d && ip link set s%d up", i, i, i);
        netns_at_clients();
        shell("ip addr add 10.99.%d.2/24 dev c%d && ip link set c%d up", i, i, i);
    }
    netns_at_servers();
}

const char *netns_address(int link)
{
    static _Thread_local char texts[4][16];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "10.99.%d.1", link);
    return text;
}

void netns_unplug(int link)
{
    shell("ip link set s%d down", link);
}

void netns_plug_in(int link)
{
    shell("ip link set s%d up", link);
}

static void drop(const char *hook, const char *end, int port)
{
    netns_at_clients();
    shell("nft 'add table inet t%d; add chain inet t%d c { type filter hook %s priority 0 ; };"
          " add rule inet t%d c tcp %s %d drop'",
          port, port, hook, port, end, port);
    netns_at_servers();
}

void netns_drop_from(int port)
{
    drop("input", "sport", port);
}

void netns_drop_to(int port)
{
    drop("output", "dport", port);
}

void netns_drop_at_client(int port)
{
    drop("input", "dport", port);
}

void netns_pass(int port)
{
    netns_at_clients();
    shell("nft delete table inet t%d", port);
    netns_at_servers();
}

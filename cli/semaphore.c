#include "semaphore.h"

#include "run.h"
#include "say.h"

#include <hasplock/hasplock.h>

static int delete_number(hlk_permits *permits)
{
    enum hlk_status status = hlk_permits_delete(permits);
    if (status == HLK_OK)
        return 0;
    if (status != HLK_BUSY && status != HLK_NOT_HOLDER)
        return say_fault();
    say(SAY_NOTE, status == HLK_BUSY ? "busy" : "unset", "%s", say_story());
    return 1;
}

static int open_and_delete(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    hlk_permits *permits = hlk_permits_create(client, options->name, NULL);
    int code = permits ? delete_number(permits) : say_fault();
    hlk_permits_destroy(permits);
    hlk_client_close(client);
    return code;
}

int semaphore(const struct options *options)
{
    return options->deletes ? open_and_delete(options) : run(options);
}

#include "batch_fixture.h"
#include "net/pipeline_lead.h"

int combines, fails_at;
char text[32768];

bool combine(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n, bool whole)
{
    char command[256] = "<";
    cr_assert(n >= 2 && n <= HLK_BATCH_MAX, "%u", n);
    if (whole)
        strcat(command, "!");
    for (unsigned i = 0; i < n; bytes += calls[i++]->len) {
        cr_assert_eq(calls[i]->batch_letter, 'p');
        cr_assert_eq(bytes[0], '[');
        strncat(command, bytes + calls[i]->keys_at, calls[i]->args_at - calls[i]->keys_at);
        strcat(command, i + 1 < n ? "+" : ">");
    }
    return ++combines != fails_at && hlk_buffer_add(to, command, strlen(command));
}

void combining_begin(void)
{
    calls_begin();
    peer.pipeline->owner.build_batch = combine;
    combines = fails_at = 0;
}

const char *as_part(struct hlk_call *call, char inbox_message)
{
    static char bytes[4];
    bool part = inbox_message >= 'a' && inbox_message <= 'z';
    (void)snprintf(bytes, sizeof bytes, part ? "[%c]" : "%c", inbox_message);
    call->batch_letter = part ? 'p' : 0;
    call->keys_at = 1;
    call->args_at = 2;
    call->args_end = 3;
    return bytes;
}

enum hlk_status ask_letter(struct asked *a, char inbox_message)
{
    memset(a, 0, sizeof *a);
    a->answer = NONE;
    return ask(a, as_part(&a->call, inbox_message));
}

void queue_letters(struct asked *a, const char *letters)
{
    hlk_pipeline_hold_back(peer.pipeline, true);
    for (; *letters; letters++)
        cr_assert_eq(ask_letter(a++, *letters), HLK_OK);
}

const char *ask_at_once(struct asked *a, const char *letters)
{
    queue_letters(a, letters);
    hlk_pipeline_hold_back(peer.pipeline, false);
    return peer_hears(&peer);
}

const char *ask_many(struct asked *a, unsigned n)
{
    char letters[2048] = "";
    memset(letters, 'a', n);
    return ask_at_once(a, letters);
}

char *together(unsigned n)
{
    char *at = text;
    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, i ? "+a" : "<a");
    (void)sprintf(at, ">");
    return text;
}

char *apart(unsigned n)
{
    char *at = text;
    *at = '\0';
    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, "[a]");
    return text;
}

const char *singly(unsigned n, const char *answer)
{
    char *at = text;
    *at = '\0';
    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, "%s\r\n", answer);
    return text;
}

const char *array_of(unsigned n, const char *answer)
{
    char *at = text + sprintf(text, "*%u\r\n", n);
    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, "%s\r\n", answer);
    return text;
}

bool all_end(const struct asked *a, unsigned n, enum hlk_call_end end, long long answer)
{
    for (unsigned i = 0; i < n; i++)
        if (a[i].ends != 1 || a[i].end != end || a[i].answer != answer)
            return false;
    return hlk_list_empty(&peer.pipeline->flight) && peer.pipeline->writes == 0;
}

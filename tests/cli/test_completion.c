/* Completion in real shells on a terminal: a line is typed with TABs in it, and a function in the place of hasplock
 * prints the words that it is given. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(completion, .init = cli_start, .fini = cli_stop);

enum shell { BASH, ZSH, SHELLS };
static const char *const shell_names[SHELLS] = { "bash", "zsh" };

static struct command *shell_start(enum shell shell)
{
    static const char *const shells[SHELLS][5] = {
        [BASH] = { "bash", "--noprofile", "--norc", "-i", NULL },
        [ZSH] = { "zsh", "-f", "-i", NULL },
    };
    static const char *const loads[SHELLS] = {
        [BASH] = ". " HLK_COMPLETION "/hasplock.bash",
        [ZSH] = "fpath=(" HLK_COMPLETION " $fpath); autoload -Uz compinit; compinit -u -D",
    };
    char text[600];
    setenv("TERM", "dumb", 1);
    setenv("HOME", "/nonexistent", 1);
    struct command *c = command_start_on_terminal(shells[shell]);
    snprintf(text, sizeof text,
             "%s; stty cols 200; hasplock() { printf '<%%s>' \"$@\"; echo '<en''d>'; }; PS1='rea''dy> '\r",
             loads[shell]);
    command_type(c, text);
    command_until(c, OUT, "ready> ");
    return c;
}

/* Types it; the words that hasplock is given. They are good until the next line. */
static const char *words_of(struct command *c, const char *line)
{
    c->text[OUT][0] = '\0';
    command_type(c, line);
    command_type(c, "\r");
    command_until(c, OUT, "<end>");
    command_until(c, OUT, "ready> ");
    *strstr(c->text[OUT], "<end>") = '\0';
    const char *words = strchr(c->text[OUT], '<');
    return words ? words : "";
}

static const struct {
    const char *line, *words[SHELLS]; /* of zsh NULL: as in bash */
} lines[] = {
    { "hasplock sh\tx", { "<show><x>" } },
    { "hasplock ver\t", { "<version>" } },
    { "hasplock help lis\t", { "<help><list>" } },
    { "hasplock sem\t--permi\t2 a x", { "<semaphore><--permits><2><a><x>", "<semaphore><--permits=2><a><x>" } },
    { "hasplock lat\tdo\tx", { "<latch><down><x>" } },
    { "hasplock latch re\tx", { "<latch><reset><x>" } },
    { "hasplock show na\tx", { "<show><nax>" } }, /* no names */
    /* options: of hasplock itself and of its command, wherever they may stand */
    { "hasplock --js\tli\t--lim\t5 x", { "<--json><list><--limit><5><x>", "<--json><list><--limit=5><x>" } },
    { "hasplock -u redis://h:1 sh\tx", { "<-u><redis://h:1><show><x>" } },
    { "hasplock show --fa\tx", { "<show><--fair><x>" } },
    { "hasplock list --fen\tx", { "<list><--fenx>" } },
    { "hasplock show --st\tx", { "<show><--string><x>" } },
    { "hasplock break --no\tx", { "<break><--now><x>" } },
    { "hasplock break --st\tx", { "<break><--string><x>" } },
    { "hasplock run a --st\tx", { "<run><a><--string><x>" } },
    { "hasplock run --min\t1m -- a mktem\tx",
      { "<run><--min-hold><1m><--><a><mktemp><x>", "<run><--min-hold=1m><--><a><mktemp><x>" } },
    { "hasplock run --not\tx a -- mktem\tx",
      { "<run><--note><x><a><--><mktemp><x>", "<run><--note=x><a><--><mktemp><x>" } },
    { "hasplock run a --spi\tx", { "<run><a><--spin><x>" } },
    { "hasplock run a --exc\tx", { "<run><a><--exclusive><x>" } },
    { "hasplock show --sha\tx", { "<show><--shared><x>" } },
    { "hasplock doc\t--st\tx", { "<doctor><--string><x>" } },
    { "hasplock list --num\tx", { "<list><--numbers><x>" } },
    { "hasplock list --st\tx", { "<list><--string><x>" } },
    { "hasplock show --wat\t x", { "<show><--watch><x>" } },
    { "hasplock list --wat\t x", { "<list><--watch><x>" } },
    { "hasplock run a:b --fen\tx", { "<run><a:b><--fenced><x>" } },
    { "hasplock run -c x t --fen\tx", { "<run><-c><x><t><--fenced><x>" } },
    { "hasplock doc\t--spi\tx", { "<doctor><--spin><x>" } },
    { "hasplock demo --see\t3", { "<demo><--seed><3>", "<demo><--seed=3>" } },
    /* values */
    { "hasplock run --on-lost=k\tx", { "<run><--on-lost=kill><x>" } },
    { "hasplock run --on-lost w\tx", { "<run><--on-lost><warn><x>" } },
    { "hasplock show -u redis:\tx", { "<show><-u><redis:x>" } },
    { "hasplock show --cert /etc/os-relea\tx", { "<show><--cert></etc/os-release><x>" } },
    { "hasplock show --url=lo\tx", { "<show><--url=local:><x>" } },
    { "hasplock show --url-file /etc/os-relea\tx", { "<show><--url-file></etc/os-release><x>" } },
    { "hasplock show --url-file=/etc/os-relea\tx", { "<show><--url-file=/etc/os-release><x>" } },
    /* COMMAND and its words */
    { "hasplock run t /bin/fals\tx", { "<run><t></bin/false><x>" } },
    { "hasplock run t -- /bin/fals\tx", { "<run><t><--></bin/false><x>" } },
    { "hasplock run -- --na /bin/fals\tx", { "<run><--><--na></bin/false><x>" } },
    { "hasplock run -n -w 5 a:b:c -- /bin/fals\tx", { "<run><-n><-w><5><a:b:c><--></bin/false><x>" } },
    { "hasplock run t -- cat /etc/os-relea\tx", { "<run><t><--><cat></etc/os-release><x>" } },
    { "hasplock run t ls --fen\tx", { "<run><t><ls><--fenx>" } },
    { "hasplock run a b c -- mktem\tx", { "<run><a><b><c><--><mktemp><x>" } },
    { "hasplock run a b -- cat /etc/os-relea\tx", { "<run><a><b><--><cat></etc/os-release><x>" } },
};

static void completes(enum shell shell)
{
    struct command *c = shell_start(shell);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *wanted = lines[i].words[shell] ? lines[i].words[shell] : lines[i].words[BASH];
        const char *words = words_of(c, lines[i].line);
        cr_expect(strcmp(words, wanted) == 0, "%s: %s gives %s, not %s", shell_names[shell], lines[i].line, words,
                  wanted);
    }
    command_free(c);
}

Test(completion, in_bash)
{
    completes(BASH);
}

Test(completion, in_zsh)
{
    completes(ZSH);
}

static void completes_option(struct command *c, enum shell shell, const char *of, const char *option)
{
    char line[100], wanted[40];
    int len = (int)strlen(option);
    snprintf(line, sizeof line, "hasplock %s %.*s\t x", of, len - 1, option);
    snprintf(wanted, sizeof wanted, "<%s", option);
    const char *found = strstr(words_of(c, line), wanted);
    cr_expect(found && (found[len + 1] == '>' || found[len + 1] == '='), "%s: %s of %s is not completed: %s",
              shell_names[shell], option, of, c->text[OUT]);
}

/* Each option that --help names. */
static void knows_all_options(enum shell shell)
{
    static const char *const commands[] = { "run", "show", "list", "break", "doctor" };
    struct command *c = shell_start(shell);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct command *help = COMMAND(commands[i], "--help");
        int n = 0;
        cr_assert_eq(command_end(help), 0);
        for (const char *at = help->text[OUT]; (at = strstr(at, " --")) != NULL; at++) {
            char option[32];
            if (sscanf(at + 1, "%31[a-z-]", option) != 1 || strlen(option) < 4)
                continue;
            completes_option(c, shell, commands[i], option);
            n++;
        }
        cr_assert_geq(n, 6, "%s", help->text[OUT]);
        command_free(help);
    }
    command_free(c);
}

Test(completion, knows_all_options_in_bash)
{
    knows_all_options(BASH);
}

Test(completion, knows_all_options_in_zsh)
{
    knows_all_options(ZSH);
}

#include "support/acl_page.h"

#include "support/wait.h"

#include <stdio.h>
#include <string.h>

const char *acl_page_line(const char *section)
{
    static _Thread_local char line[2048];
    char heading[64];
    bool found = false, inside = false;
    snprintf(heading, sizeof heading, "## %s\n", section);
    FILE *page = fopen(HLK_ACL_PAGE, "r");
    if (!page)
        test_give_up("no %s", HLK_ACL_PAGE);
    while (!found && fgets(line, sizeof line, page)) {
        if (strncmp(line, "## ", 3) == 0)
            inside = strcmp(line, heading) == 0;
        found = inside && strncmp(line, "ACL SETUSER locks ", 18) == 0;
    }
    fclose(page);
    if (!found)
        test_give_up("%s has no command in a section %s", HLK_ACL_PAGE, section);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

void acl_page_run(redisContext *redis, const char *section, const char *password)
{
    char line[2048], option[64], *save = NULL;
    const char *words[128];
    int n = 0;
    snprintf(line, sizeof line, "%s", acl_page_line(section));
    snprintf(option, sizeof option, ">%s", password ? password : "SECRET");
    for (char *word = strtok_r(line, " ", &save); word && n < 128; word = strtok_r(NULL, " ", &save))
        words[n++] = strcmp(word, ">SECRET") == 0 ? option : word;
    const char *answer = raw_argv(redis, n, words, NULL);
    if (strcmp(answer, "OK") != 0)
        test_give_up("ACL SETUSER of section %s: %s", section, answer);
}

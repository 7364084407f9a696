/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The proxy's rules as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/proxy.h"

static bool read_words(char *words, struct tl_rule *rule)
{
    static const char *const actions[] = {"drop", "delay", "cut", "cutmid", "answer", "alter"};
    *rule = (struct tl_rule){.times = -1};
    char *save = NULL;
    char *action = strtok_r(words, " ", &save);
    char *what = strtok_r(NULL, " ", &save);
    char *code = strtok_r(NULL, " ", &save);
    size_t i = 0;
    while (action && i < 6 && strcmp(actions[i], action) != 0) {
        i++;
    }
    if (!code || i == 6) {
        return false;
    }
    rule->action = (enum tl_action)i;
    rule->responses = strcmp(what, "response") == 0;
    rule->code = strcmp(code, "*") == 0 ? -1 : atoi(code);
    for (char *key = strtok_r(NULL, " ", &save); key; key = strtok_r(NULL, " ", &save)) {
        char *value = strtok_r(NULL, " ", &save);
        if (!value) {
            return false;
        }
        if (strcmp(key, "skip") == 0) {
            rule->skip = atoi(value);
        } else if (strcmp(key, "times") == 0) {
            rule->times = atoi(value);
        } else if (strcmp(key, "ms") == 0) {
            rule->delay_ms = atoi(value);
        } else if (strcmp(key, "code") == 0) {
            rule->answer_code = atoi(value);
        } else if (strcmp(key, "remark") == 0) {
            snprintf(rule->remark, sizeof rule->remark, "%s", value);
        } else if (strcmp(key, "at") == 0) {
            rule->alter_at = atol(value);
        } else if (strcmp(key, "with") == 0) {
            rule->alter_with = (unsigned char)atoi(value);
        } else {
            return false;
        }
    }
    return rule->responses || strcmp(what, "request") == 0;
}

bool tl_proxy_script(struct tl_proxy *proxy, const char *script)
{
    struct tl_rule rules[TL_RULES_MAX];
    int count = 0;
    char *copy = strdup(script);
    char *save = NULL;
    bool good = true;
    for (char *part = strtok_r(copy, ";", &save); part && good; part = strtok_r(NULL, ";", &save)) {
        good = count < TL_RULES_MAX && read_words(part, &rules[count++]);
    }
    for (int i = 0; good && i < count; i++) {
        tl_proxy_add(proxy, &rules[i]);
    }
    free(copy);
    return good;
}

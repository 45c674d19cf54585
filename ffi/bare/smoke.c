/* Links the library without std into an ordinary program and calls it. */
#include <stdio.h>
#include <string.h>

#include "gleed.h"

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
            return 1;                                                         \
        }                                                                     \
    } while (0)

int main(void)
{
    CHECK(gleed_abi_version() == GLEED_ABI_VERSION);
    CHECK(gleed_arithmetic_version() >= 1);
    CHECK(strchr(gleed_version(), '.') != NULL);
    CHECK(strcmp(gleed_status_text(GLEED_OK), "done") == 0);
    CHECK(strlen(gleed_status_text(-12345)) > 0);
    return 0;
}

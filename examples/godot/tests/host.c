/*
 * Loads the extension as Godot does, without Godot. It has the functions of gdextension_interface.h that the extension asks for, counts the
 * living strings, and calls the methods as a script does (Variants) and as compiled code does (pointers).
 *
 * usage: host LIBRARY MODEL STORY: the story is a file with the text of the most probable tokens.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gdextension_interface.h"

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);       \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static const char PROMPT[] = "Once upon a time";

/* ---- Strings, StringNames and Variants -------------------------------------------------------------------- */

static long strings;

static void new_text(void *dest, const char *contents, size_t len)
{
    char *text = malloc(len + 1);
    CHECK(text != NULL);
    memcpy(text, contents, len);
    text[len] = '\0';
    *(char **)dest = text;
    strings++;
}

static const char *text_in(const void *string)
{
    return *(char *const *)string;
}

static void drop(GDExtensionTypePtr string)
{
    free(*(char **)string);
    *(char **)string = NULL;
    strings--;
}

static void new_name(GDExtensionUninitializedStringNamePtr dest, const char *contents, GDExtensionBool is_static)
{
    CHECK(!is_static);
    new_text(dest, contents, strlen(contents));
}

static void new_string(GDExtensionUninitializedStringPtr dest, const char *contents, GDExtensionInt size)
{
    new_text(dest, contents, (size_t)size);
}

/* Like Godot's function, it returns the whole length even if `room` is smaller, and writes no 0 at the end. */
static GDExtensionInt to_utf8(GDExtensionConstStringPtr self, char *text, GDExtensionInt room)
{
    size_t len = strlen(text_in(self));
    if (text != NULL)
        memcpy(text, text_in(self), (GDExtensionInt)len < room ? len : (size_t)room);
    return (GDExtensionInt)len;
}

struct variant {
    GDExtensionVariantType type;
    union {
        void *string;
        double number;
        int64_t whole;
        GDExtensionBool flag;
    } value;
};

static void copy_value(GDExtensionVariantType type, void *dest, const void *value)
{
    if (type == GDEXTENSION_VARIANT_TYPE_STRING)
        new_text(dest, text_in(value), strlen(text_in(value)));
    else if (type == GDEXTENSION_VARIANT_TYPE_FLOAT)
        *(double *)dest = *(const double *)value;
    else
        *(GDExtensionBool *)dest = *(const GDExtensionBool *)value;
}

static void from(GDExtensionVariantType type, GDExtensionUninitializedVariantPtr dest, GDExtensionTypePtr value)
{
    struct variant *variant = (struct variant *)dest;
    variant->type = type;
    copy_value(type, &variant->value, value);
}

static void from_string(GDExtensionUninitializedVariantPtr dest, GDExtensionTypePtr value)
{
    from(GDEXTENSION_VARIANT_TYPE_STRING, dest, value);
}

static void from_bool(GDExtensionUninitializedVariantPtr dest, GDExtensionTypePtr value)
{
    from(GDEXTENSION_VARIANT_TYPE_BOOL, dest, value);
}

static GDExtensionVariantFromTypeConstructorFunc variant_from(GDExtensionVariantType type)
{
    return type == GDEXTENSION_VARIANT_TYPE_STRING ? from_string : type == GDEXTENSION_VARIANT_TYPE_BOOL ? from_bool : NULL;
}

static void string_of(GDExtensionUninitializedTypePtr dest, GDExtensionVariantPtr value)
{
    CHECK(((struct variant *)value)->type == GDEXTENSION_VARIANT_TYPE_STRING);
    copy_value(GDEXTENSION_VARIANT_TYPE_STRING, dest, &((struct variant *)value)->value);
}

static void float_of(GDExtensionUninitializedTypePtr dest, GDExtensionVariantPtr value)
{
    const struct variant *variant = (struct variant *)value;
    *(double *)(void *)dest = variant->type == GDEXTENSION_VARIANT_TYPE_INT ? (double)variant->value.whole : variant->value.number;
}

static GDExtensionTypeFromVariantConstructorFunc variant_to(GDExtensionVariantType type)
{
    return type == GDEXTENSION_VARIANT_TYPE_STRING ? string_of : type == GDEXTENSION_VARIANT_TYPE_FLOAT ? float_of : NULL;
}

static GDExtensionVariantType type_of(GDExtensionConstVariantPtr variant)
{
    return ((const struct variant *)variant)->type;
}

static GDExtensionPtrDestructor destructor(GDExtensionVariantType type)
{
    return type == GDEXTENSION_VARIANT_TYPE_STRING || type == GDEXTENSION_VARIANT_TYPE_STRING_NAME ? drop : NULL;
}

/* ---- Classes and objects ---------------------------------------------------------------------------------- */

struct object {
    GDExtensionClassInstancePtr instance;
};

static struct {
    int is_there;
    GDExtensionClassCreationInfo2 info;
    GDExtensionClassMethodInfo methods[8];
    char names[8][32];
    size_t count;
} class;
static char own_bytes;
static GDExtensionClassLibraryPtr own = (GDExtensionClassLibraryPtr)&own_bytes;
static const char *missing = "";

static void register_class(GDExtensionClassLibraryPtr library, GDExtensionConstStringNamePtr name, GDExtensionConstStringNamePtr parent,
                           const GDExtensionClassCreationInfo2 *info)
{
    CHECK(library == own && !class.is_there);
    CHECK(strcmp(text_in(name), "GleedStory") == 0 && strcmp(text_in(parent), "RefCounted") == 0);
    CHECK(info->is_exposed && !info->is_abstract && !info->is_virtual);
    class.is_there = 1;
    class.info = *info;
    class.count = 0;
}

static void register_method(GDExtensionClassLibraryPtr library, GDExtensionConstStringNamePtr name, const GDExtensionClassMethodInfo *info)
{
    CHECK(library == own && class.is_there && strcmp(text_in(name), "GleedStory") == 0 && class.count < 8);
    CHECK(info->has_return_value && info->argument_count <= 1);
    CHECK(text_in(info->return_value_info->class_name)[0] == '\0' && text_in(info->return_value_info->hint_string)[0] == '\0');
    CHECK(info->argument_count == 0 || text_in(info->arguments_info[0].name)[0] != '\0');
    snprintf(class.names[class.count], sizeof class.names[0], "%s", text_in(info->name));
    class.methods[class.count++] = *info;
}

static void unregister_class(GDExtensionClassLibraryPtr library, GDExtensionConstStringNamePtr name)
{
    CHECK(library == own && class.is_there && strcmp(text_in(name), "GleedStory") == 0);
    class.is_there = 0;
}

static GDExtensionObjectPtr construct(GDExtensionConstStringNamePtr name)
{
    CHECK(strcmp(text_in(name), "RefCounted") == 0);
    return (GDExtensionObjectPtr)calloc(1, sizeof(struct object));
}

static void set_instance(GDExtensionObjectPtr object, GDExtensionConstStringNamePtr name, GDExtensionClassInstancePtr instance)
{
    CHECK(strcmp(text_in(name), "GleedStory") == 0 && instance != NULL);
    ((struct object *)object)->instance = instance;
}

static void print_error(const char *description, const char *message, const char *function, const char *file, int32_t line,
                        GDExtensionBool notify)
{
    (void)notify;
    fprintf(stderr, "%s:%d: %s: %s (%s)\n", file, (int)line, function, description, message);
    exit(1);
}

static GDExtensionInterfaceFunctionPtr get(const char *name)
{
    static const struct {
        const char *name;
        GDExtensionInterfaceFunctionPtr function;
    } FUNCTIONS[] = {
        {"classdb_register_extension_class2", (GDExtensionInterfaceFunctionPtr)(void (*)(void))register_class},
        {"classdb_register_extension_class_method", (GDExtensionInterfaceFunctionPtr)(void (*)(void))register_method},
        {"classdb_unregister_extension_class", (GDExtensionInterfaceFunctionPtr)(void (*)(void))unregister_class},
        {"classdb_construct_object", (GDExtensionInterfaceFunctionPtr)(void (*)(void))construct},
        {"object_set_instance", (GDExtensionInterfaceFunctionPtr)(void (*)(void))set_instance},
        {"string_name_new_with_latin1_chars", (GDExtensionInterfaceFunctionPtr)(void (*)(void))new_name},
        {"string_new_with_utf8_chars_and_len", (GDExtensionInterfaceFunctionPtr)(void (*)(void))new_string},
        {"string_to_utf8_chars", (GDExtensionInterfaceFunctionPtr)(void (*)(void))to_utf8},
        {"print_error_with_message", (GDExtensionInterfaceFunctionPtr)(void (*)(void))print_error},
        {"variant_get_type", (GDExtensionInterfaceFunctionPtr)(void (*)(void))type_of},
        {"get_variant_from_type_constructor", (GDExtensionInterfaceFunctionPtr)(void (*)(void))variant_from},
        {"get_variant_to_type_constructor", (GDExtensionInterfaceFunctionPtr)(void (*)(void))variant_to},
        {"variant_get_ptr_destructor", (GDExtensionInterfaceFunctionPtr)(void (*)(void))destructor},
    };
    size_t i;
    for (i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
        if (strcmp(name, FUNCTIONS[i].name) == 0 && strcmp(name, missing) != 0)
            return FUNCTIONS[i].function;
    return NULL;
}

/* ---- Calls as in a script ------------------------------------------------------------------------------------ */

static const GDExtensionClassMethodInfo *method(const char *name)
{
    size_t i;
    for (i = 0; i < class.count; i++)
        if (strcmp(class.names[i], name) == 0)
            return &class.methods[i];
    fprintf(stderr, "there is no method %s\n", name);
    exit(1);
}

static GDExtensionCallErrorType call(struct object *object, const char *name, const struct variant *argument, struct variant *result)
{
    const GDExtensionClassMethodInfo *info = method(name);
    GDExtensionConstVariantPtr arguments[1];
    GDExtensionCallError error = {GDEXTENSION_CALL_OK, 0, 0};
    arguments[0] = (GDExtensionConstVariantPtr)argument;
    result->type = GDEXTENSION_VARIANT_TYPE_NIL;
    info->call_func(info->method_userdata, object->instance, arguments, argument != NULL, (GDExtensionVariantPtr)result, &error);
    return error.error;
}

/* Calls a method with a text. Returns its text, valid until the next call. */
static const char *ask(struct object *object, const char *name, const char *text)
{
    static char answer[8192];
    struct variant argument = {.type = GDEXTENSION_VARIANT_TYPE_STRING}, result;
    new_text(&argument.value, text, strlen(text));
    CHECK(call(object, name, &argument, &result) == GDEXTENSION_CALL_OK);
    drop((GDExtensionTypePtr)&argument.value);
    CHECK(result.type == GDEXTENSION_VARIANT_TYPE_STRING);
    snprintf(answer, sizeof answer, "%s", text_in(&result.value));
    drop((GDExtensionTypePtr)&result.value);
    return answer;
}

static int is_done(struct object *object)
{
    struct variant result;
    CHECK(call(object, "is_done", NULL, &result) == GDEXTENSION_CALL_OK && result.type == GDEXTENSION_VARIANT_TYPE_BOOL);
    return result.value.flag;
}

/* Runs a frame, and appends its text to `text`. */
static void frame(struct object *object, double milliseconds, char *text)
{
    struct variant argument = {.type = GDEXTENSION_VARIANT_TYPE_FLOAT}, result;
    argument.value.number = milliseconds;
    CHECK(call(object, "step", &argument, &result) == GDEXTENSION_CALL_OK && result.type == GDEXTENSION_VARIANT_TYPE_STRING);
    strcat(text, text_in(&result.value));
    drop((GDExtensionTypePtr)&result.value);
}

/* Runs a frame with a pointer to each value, as compiled code does. */
static void frame_by_pointers(struct object *object, double milliseconds, char *text)
{
    const GDExtensionClassMethodInfo *info = method("step");
    GDExtensionConstTypePtr arguments[1];
    void *result;
    arguments[0] = (GDExtensionConstTypePtr)&milliseconds;
    new_text(&result, "", 0);
    info->ptrcall_func(info->method_userdata, object->instance, arguments, (GDExtensionTypePtr)&result);
    strcat(text, text_in(&result));
    drop((GDExtensionTypePtr)&result);
}

static struct object *new_object(void)
{
    return (struct object *)class.info.create_instance_func(class.info.class_userdata);
}

static void free_object(struct object *object)
{
    class.info.free_instance_func(class.info.class_userdata, object->instance);
    free(object);
}

static void errors(struct object *object, const char *model)
{
    struct variant number = {.type = GDEXTENSION_VARIANT_TYPE_INT}, result;
    char path[] = "/tmp/gleed-godot-XXXXXX", text[8192] = "", bytes[4096];
    FILE *file = fopen(model, "rb"), *part;
    int part_file = mkstemp(path);
    CHECK(strcmp(ask(object, "begin", PROMPT), "no model is open") == 0);
    frame(object, 1, text);
    CHECK(is_done(object) && text[0] == '\0');
    CHECK(strcmp(ask(object, "open", "/nowhere/model.gguf"), "/nowhere/model.gguf cannot be read") == 0);
    CHECK(file != NULL && part_file >= 0 && (part = fdopen(part_file, "wb")) != NULL);
    CHECK(fread(bytes, 1, sizeof bytes, file) == sizeof bytes && fwrite(bytes, 1, sizeof bytes, part) == sizeof bytes);
    fclose(file);
    fclose(part);
    /* An error has the number that was wrong. */
    CHECK(strstr(ask(object, "open", path), " 2982 bytes that are left") != NULL);
    remove(path);
    CHECK(strcmp(ask(object, "begin", PROMPT), "no model is open") == 0);
    CHECK(call(object, "open", &number, &result) == GDEXTENSION_CALL_ERROR_INVALID_ARGUMENT);
    CHECK(call(object, "open", NULL, &result) == GDEXTENSION_CALL_ERROR_TOO_FEW_ARGUMENTS);
    CHECK(call(object, "is_done", &number, &result) == GDEXTENSION_CALL_ERROR_TOO_MANY_ARGUMENTS);
}

static void stories(struct object *a, struct object *b, const char *model, const char *want)
{
    char first[8192] = "", second[8192] = "", long_prompt[4096];
    int frames = 0;
    CHECK(ask(a, "open", model)[0] == '\0' && ask(b, "open", model)[0] == '\0');
    CHECK(is_done(a));
    /* Two stories at the same time. One of them begins again in the middle. */
    CHECK(ask(a, "begin", PROMPT)[0] == '\0' && ask(b, "begin", "A dog")[0] == '\0');
    for (; frames < 5; frames++)
        frame(b, 0, second);
    CHECK(ask(b, "begin", PROMPT)[0] == '\0');
    second[0] = '\0';
    for (; !is_done(a) || !is_done(b); frames++) {
        frame(a, 2, first);
        frame_by_pointers(b, 1, second);
    }
    printf("%d frames:\n%s%s\n", frames, PROMPT, first);
    CHECK(strcmp(first, want) == 0 && strcmp(second, want) == 0 && frames > 3);
    memset(long_prompt, 'x', sizeof long_prompt);
    long_prompt[sizeof long_prompt - 1] = '\0';
    CHECK(ask(a, "begin", long_prompt)[0] != '\0' && is_done(a));
    /* A model that is opened again. */
    CHECK(ask(a, "open", model)[0] == '\0' && ask(a, "begin", PROMPT)[0] == '\0');
    for (first[0] = '\0'; !is_done(a);)
        frame(a, 1000, first);
    CHECK(strcmp(first, want) == 0);
}

static void run(const char *path, const char *model, const char *want)
{
    static const GDExtensionInitializationLevel LEVELS[] = {GDEXTENSION_INITIALIZATION_CORE, GDEXTENSION_INITIALIZATION_SERVERS,
                                                            GDEXTENSION_INITIALIZATION_SCENE};
    GDExtensionInitialization initialization = {0};
    GDExtensionInitializationFunction entry;
    struct object *objects[2];
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int i;
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    *(void **)&entry = dlsym(library, "gleed_story_init");
    CHECK(entry != NULL);
    /* An older Godot. */
    missing = "classdb_register_extension_class2";
    CHECK(!entry(get, own, &initialization));
    missing = "";
    CHECK(entry(get, own, &initialization) && initialization.minimum_initialization_level == GDEXTENSION_INITIALIZATION_SCENE);
    for (i = 0; i < 3; i++)
        initialization.initialize(initialization.userdata, LEVELS[i]);
    CHECK(class.is_there && class.count == 4 && strings == 0);
    for (i = 0; i < 2; i++)
        objects[i] = new_object();
    errors(objects[0], model);
    stories(objects[0], objects[1], model, want);
    for (i = 0; i < 2; i++)
        free_object(objects[i]);
    for (i = 3; i-- > 0;)
        initialization.deinitialize(initialization.userdata, LEVELS[i]);
    CHECK(!class.is_there && strings == 0);
    dlclose(library);
}

int main(int argc, char **argv)
{
    char want[8192] = "";
    FILE *file;
    size_t len;
    CHECK(argc == 4 && (file = fopen(argv[3], "rb")) != NULL);
    len = fread(want, 1, sizeof want - 1, file);
    fclose(file);
    CHECK(len > sizeof PROMPT && memcmp(want, PROMPT, sizeof PROMPT - 1) == 0);
    if (want[len - 1] == '\n')
        want[len - 1] = '\0';
    /* A game that is stopped and started again. */
    run(argv[1], argv[2], want + sizeof PROMPT - 1);
    run(argv[1], argv[2], want + sizeof PROMPT - 1);
    return 0;
}

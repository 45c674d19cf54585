/*
 * GleedStory, a class for Godot 4.2 and later: `open`, `begin`, `step` and `is_done` of story.h as methods. C99 against Godot's own header,
 * gdextension_interface.h.
 */
#include <stdlib.h>
#include <string.h>

#include "gdextension_interface.h"
#include "story.h"

#define CLASS "GleedStory"
#define MOST_ARGUMENTS 1
/* PROPERTY_USAGE_DEFAULT of Godot's extension_api.json. */
#define USAGE 6

/* A String or a StringName: one pointer, which belongs to Godot. (This file never makes a Variant.) */
typedef struct {
    void *opaque;
} string;

/* Each of Godot's pointers has its own type. C converts this pointer to all of them. */
static void *at(void *value)
{
    return value;
}

static GDExtensionClassLibraryPtr library;

/* Godot's functions, by name. */
static struct {
    GDExtensionInterfaceClassdbRegisterExtensionClass2 register_class;
    GDExtensionInterfaceClassdbRegisterExtensionClassMethod register_method;
    GDExtensionInterfaceClassdbUnregisterExtensionClass unregister_class;
    GDExtensionInterfaceClassdbConstructObject construct_object;
    GDExtensionInterfaceObjectSetInstance set_instance;
    GDExtensionInterfaceStringNameNewWithLatin1Chars new_name;
    GDExtensionInterfaceStringNewWithUtf8CharsAndLen new_string;
    GDExtensionInterfaceStringToUtf8Chars to_utf8;
    GDExtensionInterfacePrintErrorWithMessage print_error;
    GDExtensionInterfaceVariantGetType type_of;
    GDExtensionInterfaceGetVariantFromTypeConstructor variant_from;
    GDExtensionInterfaceGetVariantToTypeConstructor variant_to;
    GDExtensionInterfaceVariantGetPtrDestructor destructor;
    GDExtensionPtrDestructor drop_string, drop_name;
} godot;

/* ---- Methods: arguments and results are plain values, not Variants ----------------------------------------- */

/* Returns the text of a String, or NULL. The caller frees it with `free`. */
static char *text_of(const void *argument, size_t *len)
{
    GDExtensionInt count = godot.to_utf8(argument, NULL, 0);
    char *text = malloc((size_t)count + 1);
    if (text == NULL)
        return NULL;
    godot.to_utf8(argument, text, count);
    text[count] = '\0';
    *len = (size_t)count;
    return text;
}

/* Replaces the text of `result`, which is a String already. */
static void give_text(void *result, const char *text, size_t len)
{
    godot.drop_string(result);
    godot.new_string(result, text, (GDExtensionInt)len);
}

static void give_error(void *result, const char *why)
{
    give_text(result, why == NULL ? "" : why, why == NULL ? 0 : strlen(why));
}

static void open_file(struct story *story, const void *const *arguments, void *result)
{
    size_t len;
    char *path = text_of(arguments[0], &len);
    give_error(result, path == NULL ? "out of memory" : story_open(story, path));
    free(path);
}

static void begin(struct story *story, const void *const *arguments, void *result)
{
    size_t len;
    char *prompt = text_of(arguments[0], &len);
    give_error(result, prompt == NULL ? "out of memory" : story_begin(story, prompt, len));
    free(prompt);
}

static void step(struct story *story, const void *const *arguments, void *result)
{
    const char *text;
    size_t len;
    double milliseconds = *(const double *)arguments[0];
    const char *why = story_step(story, milliseconds > 0 ? milliseconds : 0, &text, &len);
    if (why != NULL)
        godot.print_error(why, "the story has ended", "GleedStory.step", __FILE__, __LINE__, 0);
    give_text(result, text, len);
}

static void is_done(struct story *story, const void *const *arguments, void *result)
{
    (void)arguments;
    *(GDExtensionBool *)result = (GDExtensionBool)story_is_done(story);
}

struct method {
    const char *name;
    void (*run)(struct story *story, const void *const *arguments, void *result);
    GDExtensionVariantType result;
    uint32_t arguments;
    const char *argument;
    GDExtensionVariantType type;
};

static const struct method METHODS[] = {
    {"open", open_file, GDEXTENSION_VARIANT_TYPE_STRING, 1, "path", GDEXTENSION_VARIANT_TYPE_STRING},
    {"begin", begin, GDEXTENSION_VARIANT_TYPE_STRING, 1, "prompt", GDEXTENSION_VARIANT_TYPE_STRING},
    {"step", step, GDEXTENSION_VARIANT_TYPE_STRING, 1, "milliseconds", GDEXTENSION_VARIANT_TYPE_FLOAT},
    {"is_done", is_done, GDEXTENSION_VARIANT_TYPE_BOOL, 0, NULL, GDEXTENSION_VARIANT_TYPE_NIL},
};
#define METHOD_COUNT (sizeof METHODS / sizeof *METHODS)

/* ---- How Godot calls them --------------------------------------------------------------------------------- */

/* A value of one of the types above. */
union value {
    string string;
    double number;
    GDExtensionBool flag;
};

static void call_pointers(void *userdata, GDExtensionClassInstancePtr instance, const GDExtensionConstTypePtr *arguments,
                          GDExtensionTypePtr result)
{
    const struct method *method = userdata;
    method->run((struct story *)instance, (const void *const *)arguments, result);
}

/* Returns whether a Variant has the type that a method wants. A script may write 2 for 2.0. */
static int fits(GDExtensionVariantType wanted, GDExtensionVariantType given)
{
    return given == wanted || (wanted == GDEXTENSION_VARIANT_TYPE_FLOAT && given == GDEXTENSION_VARIANT_TYPE_INT);
}

static void call_variants(void *userdata, GDExtensionClassInstancePtr instance, const GDExtensionConstVariantPtr *arguments,
                          GDExtensionInt count, GDExtensionVariantPtr result, GDExtensionCallError *error)
{
    const struct method *method = userdata;
    union value argument, back;
    const void *pointers[MOST_ARGUMENTS] = {&argument};
    int is_string = method->result == GDEXTENSION_VARIANT_TYPE_STRING;
    error->error = GDEXTENSION_CALL_OK;
    if (count != method->arguments) {
        error->error = count < method->arguments ? GDEXTENSION_CALL_ERROR_TOO_FEW_ARGUMENTS : GDEXTENSION_CALL_ERROR_TOO_MANY_ARGUMENTS;
        error->expected = (int32_t)method->arguments;
        return;
    }
    if (count == 1 && !fits(method->type, godot.type_of(arguments[0]))) {
        error->error = GDEXTENSION_CALL_ERROR_INVALID_ARGUMENT;
        error->argument = 0;
        error->expected = method->type;
        return;
    }
    if (count == 1)
        godot.variant_to(method->type)(at(&argument), (GDExtensionVariantPtr)arguments[0]);
    if (is_string)
        godot.new_string(at(&back), "", 0);
    method->run((struct story *)instance, pointers, &back);
    godot.variant_from(method->result)(at(result), at(&back));
    if (is_string)
        godot.drop_string(at(&back));
    if (count == 1 && method->type == GDEXTENSION_VARIANT_TYPE_STRING)
        godot.drop_string(at(&argument));
}

static GDExtensionObjectPtr create(void *userdata)
{
    struct story *story = story_new();
    GDExtensionObjectPtr object;
    string name;
    (void)userdata;
    if (story == NULL)
        return NULL;
    godot.new_name(at(&name), "RefCounted", 0);
    object = godot.construct_object(at(&name));
    godot.drop_name(at(&name));
    godot.new_name(at(&name), CLASS, 0);
    godot.set_instance(object, at(&name), at(story));
    godot.drop_name(at(&name));
    return object;
}

static void destroy(void *userdata, GDExtensionClassInstancePtr instance)
{
    (void)userdata;
    story_free((struct story *)instance);
}

/* ---- The class ------------------------------------------------------------------------------------- */

static void add_method(const struct method *method, string *class_name)
{
    enum { METHOD, ARGUMENT, EMPTY, NAMES };
    string names[NAMES], hint;
    GDExtensionPropertyInfo result = {.type = method->result, .usage = USAGE}, argument = {.type = method->type, .usage = USAGE};
    GDExtensionClassMethodArgumentMetadata metadata = GDEXTENSION_METHOD_ARGUMENT_METADATA_NONE;
    GDExtensionClassMethodInfo info = {.method_userdata = (void *)method};
    int i;
    godot.new_name(at(&names[METHOD]), method->name, 0);
    godot.new_name(at(&names[ARGUMENT]), method->argument == NULL ? "" : method->argument, 0);
    godot.new_name(at(&names[EMPTY]), "", 0);
    godot.new_string(at(&hint), "", 0);
    result.name = at(&names[EMPTY]);
    argument.name = at(&names[ARGUMENT]);
    result.class_name = argument.class_name = at(&names[EMPTY]);
    result.hint_string = argument.hint_string = at(&hint);
    info.name = at(&names[METHOD]);
    info.call_func = call_variants;
    info.ptrcall_func = call_pointers;
    info.method_flags = GDEXTENSION_METHOD_FLAGS_DEFAULT;
    info.has_return_value = 1;
    info.return_value_info = &result;
    info.argument_count = method->arguments;
    info.arguments_info = &argument;
    info.arguments_metadata = &metadata;
    godot.register_method(library, at(class_name), &info);
    for (i = 0; i < NAMES; i++)
        godot.drop_name(at(&names[i]));
    godot.drop_string(at(&hint));
}

static void initialize(void *userdata, GDExtensionInitializationLevel level)
{
    GDExtensionClassCreationInfo2 info = {.is_exposed = 1, .create_instance_func = create, .free_instance_func = destroy};
    string name, parent;
    size_t i;
    (void)userdata;
    if (level != GDEXTENSION_INITIALIZATION_SCENE)
        return;
    godot.new_name(at(&name), CLASS, 0);
    godot.new_name(at(&parent), "RefCounted", 0);
    godot.register_class(library, at(&name), at(&parent), &info);
    for (i = 0; i < METHOD_COUNT; i++)
        add_method(&METHODS[i], &name);
    godot.drop_name(at(&parent));
    godot.drop_name(at(&name));
}

static void deinitialize(void *userdata, GDExtensionInitializationLevel level)
{
    string name;
    (void)userdata;
    if (level != GDEXTENSION_INITIALIZATION_SCENE)
        return;
    godot.new_name(at(&name), CLASS, 0);
    godot.unregister_class(library, at(&name));
    godot.drop_name(at(&name));
}

/* The function that gleed_story.gdextension names. */
#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
GDExtensionBool gleed_story_init(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr own,
                                 GDExtensionInitialization *initialization);

/* Looks up a function of Godot. Versions before 4.2 do not have all of them. */
#define GET(member, type, name)                                   \
    if ((godot.member = (type)(void (*)(void))get(name)) == NULL) \
    return 0

GDExtensionBool gleed_story_init(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr own,
                                 GDExtensionInitialization *initialization)
{
    library = own;
    GET(register_class, GDExtensionInterfaceClassdbRegisterExtensionClass2, "classdb_register_extension_class2");
    GET(register_method, GDExtensionInterfaceClassdbRegisterExtensionClassMethod, "classdb_register_extension_class_method");
    GET(unregister_class, GDExtensionInterfaceClassdbUnregisterExtensionClass, "classdb_unregister_extension_class");
    GET(construct_object, GDExtensionInterfaceClassdbConstructObject, "classdb_construct_object");
    GET(set_instance, GDExtensionInterfaceObjectSetInstance, "object_set_instance");
    GET(new_name, GDExtensionInterfaceStringNameNewWithLatin1Chars, "string_name_new_with_latin1_chars");
    GET(new_string, GDExtensionInterfaceStringNewWithUtf8CharsAndLen, "string_new_with_utf8_chars_and_len");
    GET(to_utf8, GDExtensionInterfaceStringToUtf8Chars, "string_to_utf8_chars");
    GET(print_error, GDExtensionInterfacePrintErrorWithMessage, "print_error_with_message");
    GET(type_of, GDExtensionInterfaceVariantGetType, "variant_get_type");
    GET(variant_from, GDExtensionInterfaceGetVariantFromTypeConstructor, "get_variant_from_type_constructor");
    GET(variant_to, GDExtensionInterfaceGetVariantToTypeConstructor, "get_variant_to_type_constructor");
    GET(destructor, GDExtensionInterfaceVariantGetPtrDestructor, "variant_get_ptr_destructor");
    godot.drop_string = godot.destructor(GDEXTENSION_VARIANT_TYPE_STRING);
    godot.drop_name = godot.destructor(GDEXTENSION_VARIANT_TYPE_STRING_NAME);
    initialization->minimum_initialization_level = GDEXTENSION_INITIALIZATION_SCENE;
    initialization->initialize = initialize;
    initialization->deinitialize = deinitialize;
    return 1;
}

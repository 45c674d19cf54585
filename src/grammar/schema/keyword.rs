//! The keywords of JSON Schema that mean something here.

/// Keywords that are understood.
pub(super) const KNOWN: &[&str] = &[
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "type",
];

/// Keywords that are refused by name.
pub(super) const REFUSED: &[&str] = &[
    "$dynamicRef",
    "$recursiveRef",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// A date whose day is in its month. 29 February is in every year.
const DATE: &str = r"\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|[12]\d))";
/// A time with an offset from UTC. Second 60 is in every minute.
const TIME: &str = r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)";
const DATE_TIME: &str = concat!(
    r"\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|[12]\d))",
    r"[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
);
const DURATION: &str = concat!(
    r"P(\d+W|(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)(T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))?",
    r"|T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))",
);
const EMAIL: &str = concat!(
    r"[\w!#$%&'*+\-/=?^`{|}~]+(\.[\w!#$%&'*+\-/=?^`{|}~]+)*@",
    r"([a-zA-Z\d]([a-zA-Z\d-]*[a-zA-Z\d])?(\.[a-zA-Z\d]([a-zA-Z\d-]*[a-zA-Z\d])?)*",
    r"|\[((\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){3}(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\])",
);
const HOSTNAME: &str = r"[a-zA-Z\d]([a-zA-Z\d-]{0,61}[a-zA-Z\d])?(\.[a-zA-Z\d]([a-zA-Z\d-]{0,61}[a-zA-Z\d])?)*";
const IPV4: &str = r"((\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){3}(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])";
/// Eight groups, or fewer around one `::`, which stands for at least one group.
const IPV6: &str = concat!(
    r"([\da-fA-F]{1,4}:){7}[\da-fA-F]{1,4}",
    r"|::(([\da-fA-F]{1,4}:){0,6}[\da-fA-F]{1,4})?",
    r"|[\da-fA-F]{1,4}::(([\da-fA-F]{1,4}:){0,5}[\da-fA-F]{1,4})?",
    r"|([\da-fA-F]{1,4}:){1}[\da-fA-F]{1,4}::(([\da-fA-F]{1,4}:){0,4}[\da-fA-F]{1,4})?",
    r"|([\da-fA-F]{1,4}:){2}[\da-fA-F]{1,4}::(([\da-fA-F]{1,4}:){0,3}[\da-fA-F]{1,4})?",
    r"|([\da-fA-F]{1,4}:){3}[\da-fA-F]{1,4}::(([\da-fA-F]{1,4}:){0,2}[\da-fA-F]{1,4})?",
    r"|([\da-fA-F]{1,4}:){4}[\da-fA-F]{1,4}::(([\da-fA-F]{1,4}:){0,1}[\da-fA-F]{1,4})?",
    r"|([\da-fA-F]{1,4}:){5}[\da-fA-F]{1,4}::([\da-fA-F]{1,4})?",
    r"|([\da-fA-F]{1,4}:){6}[\da-fA-F]{1,4}::",
);
const UUID: &str = r"[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}";
/// RFC 3986. An IPv4 address is a registered name, too.
const URI: &str = concat!(
    r"[a-zA-Z][a-zA-Z\d+\-.]*:(//(([\w\-.~!$&'()*+,;=:]|%[\da-fA-F]{2})*@)?",
    r"(([\w\-.~!$&'()*+,;=]|%[\da-fA-F]{2})*|\[(v[\da-fA-F]+\.[\w\-.~!$&'()*+,;=:]+",
    r"|([\da-fA-F]{1,4}:){7}[\da-fA-F]{1,4}",
    r"|([\da-fA-F]{1,4}:){1,7}:|([\da-fA-F]{1,4}:){1,6}:[\da-fA-F]{1,4}",
    r"|([\da-fA-F]{1,4}:){1,5}(:[\da-fA-F]{1,4}){1,2}|([\da-fA-F]{1,4}:){1,4}(:[\da-fA-F]{1,4}){1,3}",
    r"|([\da-fA-F]{1,4}:){1,3}(:[\da-fA-F]{1,4}){1,4}|([\da-fA-F]{1,4}:){1,2}(:[\da-fA-F]{1,4}){1,5}",
    r"|[\da-fA-F]{1,4}:(:[\da-fA-F]{1,4}){1,6}|:(:[\da-fA-F]{1,4}){1,7}|::)\])(:\d*)?",
    r"(/([\w\-.~!$&'()*+,;=:@]|%[\da-fA-F]{2})*)*",
    r"|/?([\w\-.~!$&'()*+,;=:@]|%[\da-fA-F]{2})+(/([\w\-.~!$&'()*+,;=:@]|%[\da-fA-F]{2})*)*|/|)",
    r"(\?([\w\-.~!$&'()*+,;=:@/?]|%[\da-fA-F]{2})*)?(#([\w\-.~!$&'()*+,;=:@/?]|%[\da-fA-F]{2})*)?",
);

/// Formats and their expressions, which the whole string follows.
pub(super) const FORMATS: &[(&str, &str)] = &[
    ("date", DATE),
    ("date-time", DATE_TIME),
    ("duration", DURATION),
    ("email", EMAIL),
    ("hostname", HOSTNAME),
    ("ipv4", IPV4),
    ("ipv6", IPV6),
    ("time", TIME),
    ("uri", URI),
    ("uuid", UUID),
];

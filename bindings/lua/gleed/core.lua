-- The library, its errors as tables, and memory for its objects. This file reads the declarations from gleed.h when it
-- is loaded, and has no copies of them.
local ffi = require "ffi"
local new, sizeof, cast = ffi.new, ffi.sizeof, ffi.cast

-- ---- The library --------------------------------------------------------------------------------------

-- The folder of gleed.lua. This file is in a folder beside gleed.lua.
local folder = (debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "../"
local names = { Windows = "gleed.dll", OSX = "libgleed.dylib" }
local constants, status_names = {}, {}

local function read_file(path)
    local file = io.open(path, "rb")
    local text = file and file:read "*a"
    if file then file:close() end
    return text
end

-- Returns the declarations of gleed.h for ffi.cdef, which has no preprocessor. Stores the header's numbers and the
-- names of its errors.
local function declarations()
    local wanted = os.getenv "GLEED_HEADER"
    local text = read_file(wanted or folder .. "gleed.h") or not wanted and read_file(folder .. "../../include/gleed.h")
    if not text then error("gleed.h is neither beside gleed.lua nor where GLEED_HEADER says", 0) end
    text = text:gsub("/%*.-%*/", " "):gsub("#ifdef __cplusplus.-#endif", "")
    for name, value in text:gmatch "#define (GLEED_[%u%d_]+) ([%w_]+)" do
        constants[name] = value == "UINT32_MAX" and 2 ^ 32 - 1 or value == "UINT64_MAX" and -1ULL or tonumber((value:gsub("u$", "")))
    end
    for name, value in text:gmatch "(GLEED_[%u%d_]+) = (%-?%d+)" do
        if name:find "^GLEED_E_" or name == "GLEED_FULL" then status_names[tonumber(value)] = name end
    end
    return (text:gsub("#[^\n]*", ""))
end

local header = declarations()
-- A script may be loaded again, but types stay declared.
if not pcall(ffi.typeof, "gleed_error") then
    ffi.cdef(header)
    ffi.cdef [[
        void *malloc(size_t); void free(void *); size_t fread(void *, size_t, size_t, void *); int fileno(void *);
        void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);
    ]]
end
local lib = ffi.load(os.getenv "GLEED_LIBRARY" or (read_file(folder .. (names[ffi.os] or "libgleed.so")) and folder or "")
    .. (names[ffi.os] or "libgleed.so"))
setmetatable(constants, { __index = lib })
if lib.gleed_abi_version() ~= constants.GLEED_ABI_VERSION then error("libgleed and gleed.h are of different versions", 0) end

-- ---- Errors and memory --------------------------------------------------------------------------------

local Error = { __tostring = function(self) return self.name .. ": " .. self.message end }
local E = new "gleed_error"
E.struct_size = sizeof "gleed_error"

-- Returns a status that is no error. Raises an error, or GLEED_FULL, with its numbers.
local function check(status)
    if status >= 0 and status ~= lib.GLEED_FULL then return status end
    local told = E.status == status
    E.status = 0
    error(setmetatable({
        status = status, name = status_names[status] or tostring(status),
        message = ffi.string(told and E.text[0] ~= 0 and E.text or lib.gleed_status_text(status)),
        at = told and tonumber(E.at) or 0, needed = told and tonumber(E.needed) or 0, given = told and tonumber(E.given) or 0,
    }, Error), 0)
end

local function refuse(name, message)
    error(setmetatable({ status = lib[name], name = name, message = message, at = 0, needed = 0, given = 0 }, Error), 0)
end

-- Returns a struct of gleed.h with these fields. Other fields are 0. A name that the struct does not have is an error.
local function struct(kind, fields)
    local made = new(kind)
    for name, value in pairs(fields or {}) do
        made[name] = value
        if type(value) == "string" then made[name .. "_len"] = #value end
    end
    made.struct_size = sizeof(kind)
    return made
end

-- Returns memory of C, because LuaJIT's heap is too small for models. It is freed by release, or when nothing refers to
-- it.
local function allocate(size)
    local memory = ffi.C.malloc(math.max(size, 1))
    if memory == nil then error("the system has not " .. size .. " bytes of memory", 0) end
    return ffi.gc(memory, ffi.C.free)
end

local function release(memory)
    if memory then ffi.C.free(ffi.gc(memory, nil)) end
end

local out = { size = new "size_t[1]", align = new "size_t[1]", count = new "size_t[1]", number = new "uint32_t[1]",
    flag = new "uint32_t[1]", long = new "uint64_t[1]", logits = new "const float *[1]", text = new "const char *[1]" }

-- Makes an object in new memory, with the size and alignment in `out`. Returns its pointer and its memory.
local function place(kind, start)
    local size, align = tonumber(out.size[0]), tonumber(out.align[0])
    local memory, object = allocate(size + align), new(kind .. "*[1]")
    local first = align - tonumber(cast("uintptr_t", memory) % align)
    start(cast("char *", memory) + first, size, object)
    return object[0], memory
end

-- Calls plan(scratch, words, ids, room) with growing arrays until they suffice. Returns scratch, ids and words.
local function grow(words, room, plan)
    while true do
        local scratch, ids = new("uint32_t[?]", math.max(words, 1)), new("uint32_t[?]", math.max(room, 1))
        local status = plan(scratch, words, ids, room)
        if status == lib.GLEED_E_SCRATCH_TOO_SMALL and E.needed > words then words = tonumber(E.needed)
        elseif status == lib.GLEED_E_OUTPUT_TOO_SMALL and E.needed > room then room = tonumber(E.needed)
        else check(status) return scratch, ids, words end
    end
end

local function array(ids) return new("uint32_t[?]", math.max(#ids, 1), ids) end

return {
    lib = lib, constants = constants, E = E, out = out, check = check, refuse = refuse, struct = struct, allocate = allocate, release = release,
    place = place, grow = grow, array = array,
}

-- Gleed for LuaJIT: GGUF models in a program with scripts in Lua. README.md says how to use it.
local ffi = require "ffi"
local core = require "gleed.core"
local new, cast = ffi.new, ffi.cast
local lib, constants, E, out, check, refuse, struct = core.lib, core.constants, core.E, core.out, core.check, core.refuse, core.struct
local place, grow, array, allocate, release = core.place, core.grow, core.array, core.allocate, core.release
local session = require "gleed.session"

local MAX_SIZE = 2 ^ 53 -- larger integers are not exact in a number of Lua
local gleed = { lib = lib, constants = constants, version = ffi.string(lib.gleed_version()) }
local Model, Grammar = {}, {}
Model.__index, Grammar.__index = Model, Grammar

-- Returns a file's bytes: mapped, or read if the system has no mmap.
local function map(path)
    local file, why = io.open(path, "rb")
    if not file then error(why, 0) end
    local len = file:seek "end"
    if not len or len >= MAX_SIZE then file:close() error(path .. " is no file", 0) end
    local bytes
    if ffi.os == "Windows" or len == 0 then
        bytes = allocate(len)
        file:seek "set"
        if ffi.C.fread(bytes, 1, len, file) ~= len then file:close() error(path .. " cannot be read", 0) end
    else
        bytes = ffi.C.mmap(nil, len, 1, 2, ffi.C.fileno(file), 0) -- PROT_READ, MAP_PRIVATE
        if cast("intptr_t", bytes) == -1 then file:close() error(path .. " cannot be mapped", 0) end
        bytes = ffi.gc(bytes, function(mapped) ffi.C.munmap(mapped, len) end)
    end
    file:close()
    return { bytes = bytes, len = len }
end

-- Opens a GGUF file. A split file is opened by the name of its first part.
function gleed.open(path)
    local self, stem, count = setmetatable({ files = {}, users = 0 }, Model), path:match "^(.*)%-00001%-of%-(%d%d%d%d%d)%.gguf$"
    for part = 1, tonumber(count) or 1 do
        self.files[part] = map(stem and ("%s-%05d-of-%s.gguf"):format(stem, part, count) or path)
    end
    local parts = new("gleed_part[?]", #self.files)
    for i, file in ipairs(self.files) do parts[i - 1].bytes, parts[i - 1].len = file.bytes, file.len end
    check(lib.gleed_model_split_size(#self.files, out.size, out.align, E))
    self.pointer, self.memory = place("const gleed_model", function(memory, size, object)
        check(lib.gleed_model_open_split(parts, #self.files, memory, size, object, E))
    end)
    check(lib.gleed_tokenizer_size(self.pointer, out.size, out.align, E))
    self.tokenizer, self.tables = place("const gleed_tokenizer", function(memory, size, object)
        check(lib.gleed_tokenizer_init(self.pointer, memory, size, object, E))
    end)
    self.vocabulary = struct "gleed_vocab_info"
    check(lib.gleed_tokenizer_describe(self.tokenizer, self.vocabulary, E))
    self.info = struct "gleed_model_info"
    check(lib.gleed_model_describe(self.pointer, self.info, E))
    return self
end

local function used(self)
    return self.pointer and self or refuse("GLEED_E_OBJECT", "this model has been closed")
end

-- Returns the ids of a text, a list of numbers. `flags` are GLEED_ENCODE_*; the default is GLEED_ENCODE_ADD_SPECIAL.
function Model:encode(text, flags)
    used(self)
    local _, ids = grow(2000, #text + 2, function(scratch, words, ids, room)
        return lib.gleed_encode(self.tokenizer, text, #text, flags or lib.GLEED_ENCODE_ADD_SPECIAL, scratch, words, ids, room, out.count, E)
    end)
    local list = {}
    for i = 1, tonumber(out.count[0]) do list[i] = ids[i - 1] end
    return list
end

-- Returns the tokens by their bytes, for grammars. The first call makes them.
function Model:trie()
    if not self.by_bytes then
        local scratch, _, words = grow(0, 0, function(scratch, words)
            return lib.gleed_trie_plan(self.tokenizer, scratch, words, out.size, out.align, E)
        end)
        self.by_bytes, self.trie_memory = place("const gleed_trie", function(memory, size, object)
            check(lib.gleed_trie_init(self.tokenizer, scratch, words, memory, size, object, E))
        end)
    end
    return self.by_bytes
end

-- Closes the file, at once or when its last session is closed. A second call does nothing.
function Model:close()
    self.is_closing = true
    if self.users > 0 or not self.pointer then return end
    for _, file in ipairs(self.files) do
        -- `release` would call free, but most files are mapped.
        ffi.gc(file.bytes, nil)
        if ffi.os == "Windows" or file.len == 0 then ffi.C.free(file.bytes) else ffi.C.munmap(file.bytes, file.len) end
    end
    release(self.memory) release(self.tables) release(self.trie_memory)
    self.files, self.pointer, self.tokenizer, self.memory, self.tables, self.trie_memory = {}, nil, nil, nil, nil, nil
end

-- Begins a session. gleed/session.lua describes the options.
function Model:session(options)
    return session(used(self), options or {})
end

-- Compiles a grammar. `kind` is "schema" (a JSON Schema), "gbnf" or "regex". `options` are fields of
-- gleed_grammar_options.
function gleed.grammar(text, kind, options)
    local number = constants["GLEED_GRAMMAR_" .. (kind or "schema"):upper()]
    local fields = struct("gleed_grammar_options", options)
    fields.kind, fields.flags = number, bit.bor(fields.flags, constants.GLEED_GRAMMAR_CLOSE)
    local scratch, _, words = grow(0, 0, function(scratch, words)
        return lib.gleed_grammar_plan(text, #text, scratch, words, out.size, out.align, fields, E)
    end)
    local self = setmetatable({}, Grammar)
    self.pointer, self.memory = place("const gleed_grammar", function(memory, size, object)
        check(lib.gleed_grammar_init(text, #text, scratch, words, fields, memory, size, object, E))
    end)
    return self
end

return gleed

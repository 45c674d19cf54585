-- The part of a session for conversations: the turn format, and the tokens that the model has not read yet.
local ffi = require "ffi"
local core = require "gleed.core"
local new = ffi.new
local lib, constants, E, out, check, refuse, struct = core.lib, core.constants, core.E, core.out, core.check, core.refuse, core.struct
local place = core.place

local conversation = {}

-- Finds the turn format: the format that the program names, or the format of the model's file.
function conversation.format(self)
    local model, name = self.shared.model, self.options.turns
    if self.format then return end
    if name then check(lib.gleed_turns_named(name, #name, out.number, E))
    else check(lib.gleed_turns_find(model.pointer, model.tokenizer, out.number, E)) end
    if out.number[0] == constants.GLEED_NO_TURNS then refuse("GLEED_E_VALUE", "the turn format is not known") end
    self.format = out.number[0]
end

-- Makes the objects that a conversation needs, if they do not exist yet.
function conversation.open(self)
    local shared, model, options = self.shared, self.shared.model, self.options
    conversation.format(self)
    if not shared.desk then
        local limits = struct("gleed_desk_limits", options.conversation)
        if limits.context == 0 then limits.context = shared.plan.context end
        check(lib.gleed_desk_plan(model.tokenizer, out.size, out.align, limits, E))
        shared.desk, shared.desk_memory = place("gleed_desk", function(memory, size, object)
            check(lib.gleed_desk_init(model.tokenizer, limits, memory, size, object, E))
        end)
    end
    if not self.conversation then
        check(lib.gleed_conversation_plan(shared.engine, out.size, out.align, nil, E))
        self.conversation, self.conversation_memory = place("gleed_conversation", function(memory, size, object)
            check(lib.gleed_conversation_init(shared.engine, self.seq, nil, memory, size, object, E))
        end)
    end
end

-- Rewinds the sequence to its common beginning with `messages`. Returns the ids of the rest, up to the model's reply.
function conversation.unread(self)
    local shared, messages, update = self.shared, self.messages, struct "gleed_update"
    local entries = new("gleed_entry[?]", math.max(#messages, 1))
    for i, message in ipairs(messages) do
        local entry = entries[i - 1]
        entry.role = message.role == "tool" and constants.GLEED_ROLE_TOOL or lib["GLEED_ROLE_" .. message.role:upper()]
        for _, field in ipairs { "text", "name", "id" } do
            if message[field] then entry[field], entry[field .. "_len"] = message[field], #message[field] end
        end
    end
    local script, keep = struct("gleed_script", { format = self.format }), self.options.keep and struct("gleed_keep", self.options.keep)
    check(lib.gleed_conversation_update(self.conversation, shared.engine, shared.model.tokenizer, shared.desk, entries, #messages, script, keep, update, E))
    local ids = {}
    for i = 1, tonumber(update.tokens_len) do ids[i] = update.tokens[i - 1] end
    return ids
end

return conversation

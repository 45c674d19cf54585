-- Tests of stories, conversations, their ends, grammars, forks, saved texts, wrong inputs, and memory.
io.stdout:setvbuf "no"
local gleed = require "gleed"
local ffi = require "ffi"

local PROMPT, native = "Once upon a time", {}
for id in io.lines "native_ids.txt" do for number in id:gmatch "%d+" do native[#native + 1] = tonumber(number) end end
assert(#native > 150)
local model = gleed.open "gleed-tales-q8_0.gguf"

local function first(list, count) return table.concat(list, " ", 1, count or #list) end
local function same(given, wanted)
    if given ~= wanted then error(("%s\nis not\n%s"):format(tostring(given), tostring(wanted)), 2) end
end
local function refused(name, run, ...)
    local is_run, why = pcall(run, ...)
    assert(not is_run, "was not refused")
    assert(type(why) == "table", tostring(why))
    same(why.name, name)
    assert(why.status < 0 or why.name == "GLEED_FULL")
    return why
end
local tests = {}

function tests.a_story_has_the_ids_of_the_native_example()
    local session, pieces = model:session { context = 256 }, {}
    for piece in session:tell(PROMPT) do
        pieces[#pieces + 1] = piece
        if session.reason == nil then assert(#session.ids >= #pieces) end
    end
    same(first(session.ids), first(native))
    same(session.reason, "end")
    assert(#pieces > 100)
    same(table.concat(pieces):sub(1, 22), ", there was a little g")
    same(session:step(), nil)
    same(session(), nil)
    session:close()
end

function tests.a_frame_spends_its_units()
    local session, steps, text = model:session { context = 256 }, 0, ""
    local whole = session:tell(PROMPT):read()
    local units = tonumber(session.shared.plan.units_per_token) / 8
    session:tell(PROMPT)
    repeat
        local piece, reason = session:step(units)
        text, steps = text .. (piece or ""), steps + 1
        assert(piece or reason == "end")
    until not piece
    same(text, whole)
    same(first(session.ids), first(native))
    assert(steps > 2 * #native, "steps are smaller than a token")
    session:close()
end

function tests.a_text_ends_for_a_reason()
    local session = model:session { context = 256 }
    local begin = session:tell(PROMPT, { tokens = 7 }):read()
    same(session.reason, "length")
    same(first(session.ids), first(native, 7))
    local rest = session:resume():read()
    same(first(session.ids), table.concat(native, " ", 8))
    same(session:resume():read(), "")
    local whole = session:tell(PROMPT):read()
    same(begin .. rest, whole)
    local stopped = session:tell(PROMPT, { stop = { "Lil", "nowhere" } }):read()
    same(session.reason, "stop")
    same(stopped, whole:sub(1, whole:find("Lil", 1, true) - 1))
    session:close()
    session = model:session { context = 16 }
    session:tell(PROMPT):read()
    same(session.reason, "context")
    same(first(session.ids), first(native, 11))
    session:close()
end

function tests.a_text_is_cancelled()
    local session = model:session { context = 256 }
    local begin = session:tell(PROMPT)()
    session:cancel()
    same(session.reason, "cancelled")
    same(session:step(), nil)
    same(begin .. session:resume():read(), session:tell(PROMPT):read())
    -- Cancel also works within a long prompt. The session goes on with a new text.
    session:tell(("The dog was big. "):rep(12))
    session:step(session.shared.plan.units_per_token / 4)
    session:cancel()
    same(#session.ids, 0)
    same(session:tell(PROMPT, { tokens = 3 }):read(), ", there was")
    session:close()
end

function tests.the_sampler_and_its_seed()
    local function story(seed, temperature)
        local session = model:session { context = 256, sampler = { temperature = temperature or 1, min_p = 0.05, seed = seed } }
        local text = session:tell(PROMPT, { tokens = 40 }):read()
        session:close()
        return text
    end
    same(story(7), story(7))
    assert(story(7) ~= story(8))
    local why = refused("GLEED_E_VALUE", story, 7, -1)
    assert(tostring(why):find "GLEED_E_VALUE: ")
end

function tests.texts_follow_a_schema()
    local schema = gleed.grammar '{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false}'
    local session = model:session { context = 256 }
    local text = session:tell("Lily: ", { grammar = schema, tokens = 40 }):read()
    assert(text:match '^{%s*"name"%s*:%s*".*",%s*"age"%s*:%s*%-?%d+%s*}$', text)
    same(session:tell("Lily said: ", { grammar = gleed.grammar("(yes|no)", "regex"), tokens = 20 }):read():gsub("^no$", "yes"), "yes")
    local gbnf = session:tell("Lily said: ", { grammar = gleed.grammar('root ::= "a" | "b"', "gbnf") }):read()
    assert(gbnf == "a" or gbnf == "b")
    assert(refused("GLEED_E_GRAMMAR", gleed.grammar, "{").at > 0)
    session:close()
end

function tests.a_conversation_reads_nothing_twice()
    local session = model:session { turns = "chatml", system = "Be kind." }
    local reply = session:ask("Hello!", { tokens = 6 }):read()
    same(#session.messages, 3)
    same(session.messages[1].role .. session.messages[2].role .. session.messages[3].role, "systemuserassistant")
    same(session.messages[3].text, reply)
    local before = session:tokens()
    session:ask("And then?", { tokens = 6 })
    -- The tokens of the turns before stay, even before anything is computed.
    same(first(session:tokens(), #before), first(before))
    session:read()
    same(#session.messages, 5)
    -- To regenerate gives the same reply, because the sampler takes the most probable token.
    local last = table.remove(session.messages).text
    same(session:reply({ tokens = 6 }):read(), last)
    -- A cancelled question counts as not asked.
    session:ask("What?")
    session:cancel()
    same(#session.messages, 5)
    local why = refused("GLEED_E_CONTEXT", session.ask, session, ("word "):rep(600))
    assert(why.needed > why.given or why.given > why.needed)
    same(#session.messages, 5)
    assert(session:ask("And then?", { tokens = 2 }):read() ~= nil)
    session:close()
    session = model:session()
    refused("GLEED_E_VALUE", session.ask, session, "Hello!")
    session:close()
end

function tests.forks_share_their_memory_and_run_together()
    local session = model:session { context = 256, sequences = 3 }
    session:tell(PROMPT, { tokens = 30 })
    for _ = 1, 10 do session() end
    local other = session:fork()
    other:resume { tokens = #native - #session.ids }
    local third = other:fork()
    refused("GLEED_FULL", other.fork, other)
    third:cancel()
    -- A step of one session computes all of them.
    local text = other:read()
    same(session:read() ~= "", true)
    same(first(session.ids), first(native, 30))
    same(first(other.ids), table.concat(native, " ", 11))
    same(third:resume { tokens = #native - 10 }:read(), text)
    third:close() other:close() session:close()
end

function tests.what_fails_leaves_no_sequence_open()
    -- There is no block for the fork and for the text that goes on.
    local options = { context = 64, sequences = 2, kv_blocks = 2, sampler = { min_p = 0.05 } }
    local session = model:session(options)
    session:tell(PROMPT, { tokens = 20 })
    for _ = 1, 14 do session() end
    refused("GLEED_FULL", session.fork, session)
    same(session:read() ~= "", true)
    same(first(session.ids), first(native, 20))
    -- The fork has the options of its session, which the program has changed.
    options.sampler.temperature = -1
    refused("GLEED_E_VALUE", session.fork, session)
    options.sampler.temperature = 0
    session:fork():close()
    -- A conversation whose turn format this session does not know.
    local talk = model:session { context = 256, turns = "chatml" }
    talk:ask("Hello!", { tokens = 2 }):read()
    local before = first(session:tokens())
    refused("GLEED_E_VALUE", session.load, session, talk:save())
    same(first(session:tokens()), before)
    session:fork():close()
    talk:close() session:close()
end

function tests.a_text_goes_back()
    local session = model:session { context = 256 }
    session:tell(PROMPT):read()
    local prompt = #model:encode(PROMPT)
    session:rewind(prompt + 20)
    same(session:resume():read() ~= "", true)
    same(first(session.ids), table.concat(native, " ", 21))
    assert(refused("GLEED_E_KEEP", session.rewind, session, 1000).given == 1000)
    session:rewind(0)
    same(session:resume():read(), "")
    session:close()
end

function tests.a_story_goes_on_from_a_file()
    local function session(seed) return model:session { context = 256, sampler = { temperature = 1, min_p = 0.05, seed = seed } } end
    local one, two = session(7), session(8)
    one:tell(PROMPT, { tokens = 30 }):read()
    local saved = one:save()
    local rest = one:resume():read()
    assert(rest ~= "")
    two:load(saved)
    same(two:resume():read(), rest)
    -- Save in the middle of a text, which goes on afterwards.
    one:load(saved)
    one:resume()
    local piece = one()
    local middle = one:save()
    two:load(middle)
    same(piece .. two:resume():read(), rest)
    same(piece .. one:read(), rest)
    -- Damaged bytes change nothing.
    local before = first(two:tokens())
    local damaged = saved:sub(1, -2) .. string.char((saved:byte(-1) + 1) % 256)
    refused("GLEED_E_SNAPSHOT", two.load, two, damaged)
    refused("GLEED_E_SNAPSHOT_MAGIC", two.load, two, ("no snapshot"):rep(20))
    same(first(two:tokens()), before)
    one:close() two:close()
end

function tests.wrong_inputs_are_refused_with_numbers()
    assert(select(2, pcall(gleed.open, "nowhere.gguf")):find "nowhere.gguf")
    refused("GLEED_E_FILE_MAGIC", gleed.open, "gleed.h")
    local why = refused("GLEED_E_LIMIT", model.session, model, { rows = 1e9 })
    assert(why.given == 1e9 and why.needed > 0 and why.needed < 1e9 and #why.message > 10)
    assert(not pcall(model.session, model, { no_such_limit = 1 }))
    local session = model:session { context = 32 }
    why = refused("GLEED_E_CONTEXT", session.tell, session, ("The dog was big. "):rep(30))
    assert(why.needed == 32 and why.given > 32)
    refused("GLEED_E_TEXT", session.ask, model:session { turns = "chatml" }, "\255")
    for _, options in ipairs { { tokens = 0 }, { tokens = -1 }, { tokens = 2.5 }, { tokens = "x" }, { tokns = 5 }, "x" } do
        local is_taken, text = pcall(session.tell, session, PROMPT, options)
        assert(not is_taken and text:find "tok" or text:find "table", text)
    end
    for _, keep in ipairs { -1, 0.5, "x" } do
        local is_taken, text = pcall(session.rewind, session, keep)
        assert(not is_taken and text:find "keep is", text)
    end
    same(session:tell(PROMPT, { tokens = 3 }):read(), ", there was")
    session:close()
    session:close()
    refused("GLEED_E_OBJECT", session.tell, session, PROMPT)
    refused("GLEED_E_OBJECT", session.step, session)
    local other = gleed.open "gleed-tales-q8_0.gguf"
    local last = other:session { context = 32 }
    other:close()
    same(last:tell(PROMPT, { tokens = 3 }):read(), ", there was")
    last:close()
    refused("GLEED_E_OBJECT", other.encode, other, "a")
    other:close()
end

-- Returns the resident memory of this process in bytes.
local function resident()
    local file = io.open "/proc/self/statm"
    local pages = file:read "*a":match "%d+ (%d+)"
    file:close()
    return tonumber(pages) * 4096
end

function tests.memory_is_given_back()
    local most = 0
    local function once(closes)
        local other = gleed.open "gleed-tales-q8_0.gguf"
        local session = other:session { context = 512 }
        session:tell(PROMPT, { tokens = 20 }):read()
        most = math.max(most, tonumber(session.shared.plan.bytes))
        if closes then session:close() other:close() end
    end
    -- First 40 sessions that are closed, with the garbage collector stopped. Then 40 sessions that are only forgotten.
    for _, closes in ipairs { true, false } do
        once(closes) collectgarbage() collectgarbage()
        local before = resident()
        if closes then collectgarbage "stop" end
        for i = 1, 40 do
            once(closes)
            if not closes and i % 4 == 0 then collectgarbage() collectgarbage() end
        end
        collectgarbage "restart" collectgarbage() collectgarbage()
        local grown = resident() - before
        print(("    %s: %d bytes more after 40 sessions of %d bytes"):format(closes and "closed" or "forgotten", grown, most))
        assert(grown < 2 * most, "memory leaks")
    end
end

function tests.the_module_can_be_loaded_again()
    for name in pairs(package.loaded) do if name:find "^gleed" then package.loaded[name] = nil end end
    local again = require "gleed"
    assert(again ~= gleed)
    local other = again.open "gleed-tales-q8_0.gguf"
    local session = other:session { context = 32 }
    same(session:tell(PROMPT, { tokens = 3 }):read(), ", there was")
    session:close() other:close()
end

local names = {}
for name in pairs(tests) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
    local started = os.clock()
    local is_run, why = xpcall(tests[name], function(why) return type(why) == "table" and why or debug.traceback(tostring(why), 2) end)
    if not is_run then
        print(name .. " FAILED: " .. tostring(why))
        os.exit(1)
    end
    print(("%s: %.2f s"):format(name, os.clock() - started))
end
print(("LuaJIT %s: %d tests with gleed %s"):format(jit.version, #names, gleed.version))

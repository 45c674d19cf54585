// Runs dispatches. The words on the standard input are a grid, the number of buffers, and of each buffer its number of words and
// its words. The buffers come back in the same way. A kernel defines WORKGROUP, bind(number, words) and invoke(group,
// invocation).

vec3<u32> OF_GROUP;
bool FINISHED[MOST];

void turn() {
    invoke(OF_GROUP, CURRENT);
    FINISHED[CURRENT] = true;
}

void workgroup(vec3<u32> group) {
    static std::vector<char> stacks(MOST << 16);
    OF_GROUP = group;
    for (u32 i = 0; i < WORKGROUP; i++) {
        getcontext(&TURNS[i]);
        TURNS[i].uc_stack.ss_sp = &stacks[i << 16];
        TURNS[i].uc_stack.ss_size = 1 << 16;
        TURNS[i].uc_link = &HOST;
        makecontext(&TURNS[i], turn, 0);
        FINISHED[i] = false;
    }
    for (bool works = true; works;) {
        works = false;
        for (CURRENT = 0; CURRENT < WORKGROUP; CURRENT++) {
            if (FINISHED[CURRENT]) continue;
            swapcontext(&HOST, &TURNS[CURRENT]);
            works |= !FINISHED[CURRENT];
        }
    }
}

bool read(u32 *words, u32 count) { return std::fread(words, 4, count, stdin) == count; }

} // namespace shader

int main() {
    using namespace shader;
    u32 head[4];
    while (read(head, 4)) {
        std::vector<std::vector<u32>> buffers(head[3]);
        for (u32 i = 0; i < head[3]; i++) {
            u32 count;
            if (!read(&count, 1)) return 1;
            buffers[i].resize(count + 4);
            if (!read(buffers[i].data(), count)) return 1;
            bind(i, buffers[i].data());
        }
        for (u32 z = 0; z < head[2]; z++)
            for (u32 y = 0; y < head[1]; y++)
                for (u32 x = 0; x < head[0]; x++) workgroup(vec3<u32>(x, y, z));
        for (auto &buffer : buffers) {
            u32 count = u32(buffer.size()) - 4;
            std::fwrite(&count, 4, 1, stdout);
            std::fwrite(buffer.data(), 4, count, stdout);
        }
        std::fflush(stdout);
    }
    return 0;
}

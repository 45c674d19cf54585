// The largest number in ORDER, and of equal ones the one with the lowest TOKEN, by 256 invocations.

var<workgroup> ORDER: array<i32, 256>;
var<workgroup> TOKEN: array<u32, 256>;

// Puts it at index 0. All invocations call it.
fn find_best(invocation: u32) {
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (invocation < half) {
            let other = invocation + half;
            let wins = ORDER[other] > ORDER[invocation]
                || (ORDER[other] == ORDER[invocation] && TOKEN[other] < TOKEN[invocation]);
            if (wins) { ORDER[invocation] = ORDER[other]; TOKEN[invocation] = TOKEN[other]; }
        }
        workgroupBarrier();
    }
}

// The number that stands for no token.
const NO_TOKEN = 0xffffffffu;
const LEAST = -2147483647;

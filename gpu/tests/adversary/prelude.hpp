// WGSL as C++: the parts of the language that a kernel's text needs, which is translated line by line. All kernels share them.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ucontext.h>
#include <vector>

// The kernels have a function of this name. WGSL has no such type.
#define short short_

namespace shader {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using f32 = float;

template <class T, u32 N> struct array {
    T at[N];
    array() = default;
    template <class... Ts> explicit array(T first, Ts... rest) : at{first, rest...} {}
    T &operator[](u32 i) { return at[i]; }
    const T &operator[](u32 i) const { return at[i]; }
};
template <class T> struct vec3 {
    T x, y, z;
    vec3() = default;
    vec3(T x, T y, T z) : x(x), y(y), z(z) {}
};

template <class T> struct vec4 {
    T x, y, z, w;
    vec4() = default;
    vec4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
    const T &operator[](u32 i) const { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
};
template <class T> inline vec4<T> operator+(vec4<T> a, vec4<T> b) { return vec4<T>(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
template <class T> inline vec4<T> operator*(vec4<T> a, vec4<T> b) { return vec4<T>(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
template <class T> inline vec4<T> operator*(vec4<T> a, T b) { return vec4<T>(a.x * b, a.y * b, a.z * b, a.w * b); }

template <class To, class From> inline To bitcast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
template <class T> inline T select(T no, T yes, bool which) { return which ? yes : no; }
template <class T> inline T max(T a, T b) { return a > b ? a : b; }
template <class T> inline vec4<T> max(vec4<T> a, vec4<T> b) { return vec4<T>(max(a.x, b.x), max(a.y, b.y), max(a.z, b.z), max(a.w, b.w)); }
template <class T> inline T min(T a, T b) { return a < b ? a : b; }
template <class T> inline T clamp(T x, T low, T high) { return min(max(x, low), high); }
inline f32 sqrt(f32 x) { return __builtin_sqrtf(x); }
inline u32 countLeadingZeros(u32 x) { return x == 0 ? 32 : __builtin_clz(x); }
inline i32 extractBits(i32 x, u32 at, u32 count) { return i32(u32(x) << (32 - at - count)) >> (32 - count); }
inline i32 dot4I8Packed(u32 a, u32 b) {
    i32 sum = 0;
    for (u32 at = 0; at < 32; at += 8) sum += extractBits(i32(a), at, 8) * extractBits(i32(b), at, 8);
    return sum;
}
inline u32 dot4U8Packed(u32 a, u32 b) {
    u32 sum = 0;
    for (u32 at = 0; at < 32; at += 8) sum += ((a >> at) & 255u) * ((b >> at) & 255u);
    return sum;
}
inline void atomicMax(u32 *at, u32 x) { *at = max(*at, x); }
inline void atomicAnd(u32 *at, u32 x) { *at &= x; }
inline void atomicOr(u32 *at, u32 x) { *at |= x; }
inline u32 atomicAdd(u32 *at, u32 x) { *at += x; return *at - x; }
inline void atomicStore(u32 *at, u32 x) { *at = x; }
inline u32 atomicLoad(const u32 *at) { return *at; }

// The invocations of a workgroup take turns: each runs to its next barrier.
constexpr u32 MOST = 256;
inline ucontext_t HOST, TURNS[MOST];
inline u32 CURRENT;
inline void workgroupBarrier() { swapcontext(&TURNS[CURRENT], &HOST); }
inline void storageBarrier() { workgroupBarrier(); }

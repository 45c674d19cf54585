using System;
using System.Runtime.InteropServices;
using System.Text;

namespace Gleed
{
    /// <summary>An object of the library with its memory. The objects that it borrows are not freed before it, so
    /// objects may be disposed in any order.</summary>
    internal sealed unsafe class Held : SafeHandle
    {
        internal delegate int Start(IntPtr memory, UIntPtr size, out IntPtr made, ref Native.gleed_error error);

        /// <summary>Writes to scratch and result, which have these lengths. If one is too small, the error has the
        /// needed length.</summary>
        internal delegate int Fill(uint* scratch, UIntPtr words, uint* result, UIntPtr room, ref Native.gleed_error error);

        readonly SafeHandle[] keeps;
        readonly long bytes;
        IntPtr memory;
        int kept;

        Held(long bytes, SafeHandle[] keeps) : base(IntPtr.Zero, true)
        {
            this.keeps = keeps;
            this.bytes = bytes;
        }

        public override bool IsInvalid { get { return memory == IntPtr.Zero; } }

        /// <summary>Allocates memory and makes an object in it.</summary>
        internal static Held Make(UIntPtr size, UIntPtr align, Start start, params SafeHandle[] keeps)
        {
            var held = new Held(checked((long)((ulong)size + (ulong)align)), keeps);
            try
            {
                held.memory = Marshal.AllocHGlobal(new IntPtr(held.bytes));
                GC.AddMemoryPressure(held.bytes);
                for (; held.kept < keeps.Length; held.kept++)
                {
                    var isKept = false;
                    keeps[held.kept].DangerousAddRef(ref isKept);
                }
                var first = (ulong)align - (ulong)held.memory % (ulong)align;
                var error = Call.Error();
                IntPtr made;
                Call.Check(start(new IntPtr((long)((ulong)held.memory + first)), size, out made, ref error), ref error);
                held.SetHandle(made);
                return held;
            }
            catch
            {
                held.Dispose();
                throw;
            }
        }

        protected override bool ReleaseHandle()
        {
            Marshal.FreeHGlobal(memory);
            GC.RemoveMemoryPressure(bytes);
            while (kept > 0)
                keeps[--kept].DangerousRelease();
            return true;
        }

        /// <summary>Calls a function with growing scratch and result until they suffice. Returns the result.</summary>
        internal static uint[] Grow(ref uint[] scratch, int room, Fill fill)
        {
            var result = new uint[Math.Max(room, 1)];
            while (true)
            {
                var error = Call.Error();
                int status;
                fixed (uint* words = scratch)
                fixed (uint* ids = result)
                    status = fill(words, (UIntPtr)scratch.Length, ids, (UIntPtr)result.Length, ref error);
                if (status == (int)Status.E_SCRATCH_TOO_SMALL && error.needed > (ulong)scratch.Length)
                    scratch = new uint[checked((int)error.needed)];
                else if (status == (int)Status.E_OUTPUT_TOO_SMALL && error.needed > (ulong)result.Length)
                    result = new uint[checked((int)error.needed)];
                else
                {
                    Call.Check(status, ref error);
                    return result;
                }
            }
        }

        /// <summary>Returns a text's bytes in UTF-8 and one more byte, so that a pointer to the bytes is never
        /// null.</summary>
        internal static byte[] Utf8(string text, out UIntPtr len)
        {
            var count = Encoding.UTF8.GetByteCount(text);
            var data = new byte[count + 1];
            Encoding.UTF8.GetBytes(text, 0, text.Length, data, 0);
            len = (UIntPtr)count;
            return data;
        }
    }
}

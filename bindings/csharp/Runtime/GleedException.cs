using System;
using System.Runtime.InteropServices;

namespace Gleed
{
    /// <summary>A call was refused. It has changed nothing, unless gleed.h says otherwise for the function.</summary>
    public sealed class GleedException : Exception
    {
        internal GleedException(Status status, string message, ulong at = 0, ulong needed = 0, ulong given = 0) : base(status + ": " + message)
        {
            Status = status;
            At = at;
            Needed = needed;
            Given = given;
        }

        /// <summary>The status of gleed.h. Its comment there says what the other numbers mean.</summary>
        public Status Status { get; }

        /// <summary>The position of the error.</summary>
        public ulong At { get; }

        /// <summary>The number that was needed.</summary>
        public ulong Needed { get; }

        /// <summary>The number that was given.</summary>
        public ulong Given { get; }
    }

    internal static unsafe class Call
    {
        internal static Native.gleed_error Error()
        {
            return new Native.gleed_error { struct_size = (uint)sizeof(Native.gleed_error) };
        }

        /// <summary>Returns a status that is no error. Throws an error with its numbers.</summary>
        internal static Status Check(int status, ref Native.gleed_error error)
        {
            if (status >= 0 && status != (int)Status.FULL)
                return (Status)status;
            var told = error.status == status;
            var text = "";
            fixed (byte* bytes = error.text)
                text = told ? Marshal.PtrToStringAnsi((IntPtr)bytes) : "";
            if (string.IsNullOrEmpty(text))
                text = Marshal.PtrToStringAnsi(Native.gleed_status_text(status));
            throw told ? new GleedException((Status)status, text, error.at, error.needed, error.given)
                       : new GleedException((Status)status, text);
        }
    }
}

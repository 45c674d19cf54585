// Compares the structs, functions and numbers in Native.cs with gleed.h and with the output of a C compiler.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;

static class Layout
{
    const BindingFlags All = BindingFlags.Static | BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic;

    static readonly Type Native = typeof(Gleed.Model).Assembly.GetType("Gleed.Native", true);

    /// <summary>Compares the size of each struct and the offset of each field with C. A field that only C has changes
    /// the size.</summary>
    public static void StructsAreThoseOfC()
    {
        StringBuilder here = new StringBuilder(), program = new StringBuilder("#include <stdio.h>\n#include \"gleed.h\"\nint main(void)\n{\n");
        var structs = Native.GetNestedTypes(All).Where(type => type.IsValueType && type.Name.StartsWith("gleed_")).ToList();
        foreach (var type in structs)
        {
            here.AppendFormat("{0} {1}\n", type.Name, Marshal.SizeOf(type));
            program.AppendFormat("    printf(\"{0} %zu\\n\", sizeof({0}));\n", type.Name);
            var end = 0;
            foreach (var field in type.GetFields(All).OrderBy(field => (int)Marshal.OffsetOf(type, field.Name)))
            {
                var buffer = (System.Runtime.CompilerServices.FixedBufferAttribute)Attribute.GetCustomAttribute(field, typeof(System.Runtime.CompilerServices.FixedBufferAttribute));
                var size = buffer != null ? buffer.Length : field.FieldType.IsPointer ? IntPtr.Size : Marshal.SizeOf(field.FieldType);
                var place = (int)Marshal.OffsetOf(type, field.Name);
                Tests.Same(end, place, type.Name + "." + field.Name);
                end = place + size;
                here.AppendFormat("{0} {1} {2}\n", field.Name, place, size);
                program.AppendFormat("    printf(\"{1} %zu %zu\\n\", offsetof({0}, {1}), sizeof((({0} *)0)->{1}));\n", type.Name, field.Name);
            }
        }
        program.Append("    return 0;\n}\n");
        File.WriteAllText("layout.c", program.ToString());
        Run("cc", "-std=c99 -I. layout.c -o layout");
        Tests.Same(Run("./layout", ""), here.ToString(), "structs");
        Tests.That(structs.Count >= 19, "structs are compared");
    }

    /// <summary>Compares the number and the kinds of each function's parameters.</summary>
    public static void FunctionsAreThoseOfTheHeader()
    {
        var header = Regex.Replace(File.ReadAllText("gleed.h"), @"/\*.*?\*/", " ", RegexOptions.Singleline);
        var count = 0;
        foreach (var method in Native.GetMethods(All).Where(method => method.Name.StartsWith("gleed_")))
        {
            var found = Regex.Match(header, @"\n(gleed_status|uint32_t|const char \*) ?" + method.Name + @"\(([^;]*)\);");
            Tests.That(found.Success, method.Name + " is in the header");
            var wanted = found.Groups[2].Value.Trim() == "void" ? new string[0] : found.Groups[2].Value.Split(',').Select(KindInC).ToArray();
            Tests.Same(string.Join(" ", method.GetParameters().Select(Kind)), string.Join(" ", wanted), method.Name);
            count++;
        }
        Tests.That(count >= 60, "functions are compared");
    }

    public static void NumbersAreThoseOfTheHeader()
    {
        var header = File.ReadAllText("gleed.h");
        var numbers = new Dictionary<string, long>();
        foreach (Match match in Regex.Matches(header, @"(?:#define |    )(GLEED_\w+)(?: =)? (-?\d+|UINT32_MAX)"))
            numbers[match.Groups[1].Value] = match.Groups[2].Value == "UINT32_MAX" ? uint.MaxValue : long.Parse(match.Groups[2].Value);
        var count = 0;
        foreach (var field in Native.GetFields(All).Where(field => field.Name.StartsWith("GLEED_")))
        {
            Tests.Same((long)(uint)field.GetRawConstantValue(), numbers[field.Name], field.Name);
            count++;
        }
        Tests.That(count > 15, "constants are compared");
        var statuses = numbers.Where(pair => Regex.IsMatch(pair.Key, "^GLEED_(OK|YIELDED|FULL|STOPPED|READY|E_)")).ToList();
        Tests.Same(Enum.GetNames(typeof(Gleed.Status)).Length, statuses.Count, "statuses");
        foreach (var pair in statuses)
            Tests.Same((long)(int)Enum.Parse(typeof(Gleed.Status), pair.Key.Substring(6)), pair.Value, pair.Key);
        foreach (Gleed.Role role in Enum.GetValues(typeof(Gleed.Role)))
            Tests.Same((long)role, numbers["GLEED_ROLE_" + role.ToString().ToUpper()], role.ToString());
        foreach (Gleed.GrammarKind kind in Enum.GetValues(typeof(Gleed.GrammarKind)))
            Tests.Same((long)kind, numbers["GLEED_GRAMMAR_" + kind.ToString().ToUpper()], kind.ToString());
    }

    static string KindInC(string parameter)
    {
        if (parameter.Contains("*"))
            return "pointer";
        return Regex.Match(parameter.Trim(), @"^(const )?(\w+) ").Groups[2].Value.Replace("gleed_seq", "uint32_t").Replace("gleed_status", "int32_t");
    }

    static string Kind(ParameterInfo parameter)
    {
        var type = parameter.ParameterType;
        var names = new Dictionary<Type, string>
        {
            { typeof(UIntPtr), "size_t" }, { typeof(uint), "uint32_t" }, { typeof(ulong), "uint64_t" }, { typeof(float), "float" }, { typeof(int), "int32_t" },
        };
        return names.ContainsKey(type) ? names[type] : "pointer";
    }

    static string Run(string program, string arguments)
    {
        var start = new ProcessStartInfo(program, arguments) { UseShellExecute = false, RedirectStandardOutput = true };
        using (var process = Process.Start(start))
        {
            var text = process.StandardOutput.ReadToEnd();
            process.WaitForExit();
            Tests.Same(process.ExitCode, 0, program);
            return text;
        }
    }
}

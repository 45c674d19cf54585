// The part of UnityEngine that the component uses, so that the test can compile the component and call it as Unity
// does.
using System;

namespace UnityEngine
{
    public class MonoBehaviour
    {
        public static object Beside;

        public T GetComponent<T>()
        {
            return (T)Beside;
        }
    }

    public sealed class RequireComponent : Attribute
    {
        public RequireComponent(Type type)
        {
        }
    }

    public static class Debug
    {
        public static object Last;

        public static void Log(object message)
        {
            Last = message;
        }
    }

    public static class GUILayout
    {
        public static string Shown;

        public static void Label(string text)
        {
            Shown = text;
        }
    }

    public static class Application
    {
        public static string streamingAssetsPath = ".";
    }

    public sealed class AddComponentMenu : Attribute
    {
        public AddComponentMenu(string menu)
        {
        }
    }

    public sealed class TooltipAttribute : Attribute
    {
        public TooltipAttribute(string text)
        {
        }
    }

    public sealed class TextAreaAttribute : Attribute
    {
    }
}

namespace UnityEngine.Events
{
    public class UnityEvent<T>
    {
        event Action<T> calls;

        public void AddListener(Action<T> call)
        {
            calls += call;
        }

        public void Invoke(T value)
        {
            calls?.Invoke(value);
        }
    }
}

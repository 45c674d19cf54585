using System;
using System.IO;
using UnityEngine;
using UnityEngine.Events;

namespace Gleed.Unity
{
    /// <summary>Generates texts, with a budget of units in each frame. <see cref="onText"/> gets the text, <see
    /// cref="onEnd"/> its end.</summary>
    [AddComponentMenu("Gleed/Storyteller")]
    public sealed class Storyteller : MonoBehaviour
    {
        /// <summary>An event with a text.</summary>
        [Serializable]
        public sealed class TextEvent : UnityEvent<string>
        {
        }

        [Tooltip("A GGUF file: a path, or a name within StreamingAssets.")]
        public string model = "model.gguf";

        [Tooltip("The most tokens of a text.")]
        public int context = 512;

        [Tooltip("How much is computed in a frame. UnitsPerToken units suffice for one token.")]
        public int unitsPerFrame = 2000;

        [Tooltip("0: the most probable token is taken each time.")]
        public float temperature = 0.8f;

        [Tooltip("The same seed gives the same tokens.")]
        public int seed = 1;

        [Tooltip("The first message of a conversation.")]
        [TextArea] public string system = "";

        /// <summary>Called with each piece of text, on the main thread.</summary>
        public TextEvent onText = new TextEvent();

        /// <summary>Called with the reason when a text has ended.</summary>
        public TextEvent onEnd = new TextEvent();

        Model opened;
        Session session;
        bool isTelling;

        /// <summary>The session, for saved texts, forks and messages. Null while the component is disabled.</summary>
        public Session Session { get { return session; } }

        /// <summary>Begins a new text.</summary>
        public void Tell(string prompt)
        {
            session.Tell(prompt);
            isTelling = true;
        }

        /// <summary>Says something to the model, which answers.</summary>
        public void Ask(string question)
        {
            session.Ask(question);
            isTelling = true;
        }

        /// <summary>Ends the text.</summary>
        public void Cancel()
        {
            session.Cancel();
        }

        void OnEnable()
        {
            var path = Path.IsPathRooted(model) ? model : Path.Combine(Application.streamingAssetsPath, model);
            opened = new Model(path);
            session = new Session(opened, new SessionOptions
            {
                Context = (uint)context,
                System = system.Length > 0 ? system : null,
                Sampler = new SamplerOptions { Temperature = temperature, MinP = 0.05f, Seed = (ulong)seed },
            });
        }

        void Update()
        {
            if (!isTelling)
                return;
            var piece = session.Step((ulong)Math.Max(unitsPerFrame, 1));
            isTelling = piece != null;
            if (piece == null)
                onEnd.Invoke(session.Reason.ToString());
            else if (piece.Length > 0)
                onText.Invoke(piece);
        }

        // Unity calls this also before it reloads scripts. Finalizers give back the rest when the domain is unloaded.
        void OnDisable()
        {
            isTelling = false;
            session?.Dispose();
            opened?.Dispose();
            session = null;
            opened = null;
        }
    }
}

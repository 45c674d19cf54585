using Gleed.Unity;
using UnityEngine;

/// <summary>Shows a story while it is generated. Put a model into StreamingAssets, and name it in the
/// Storyteller.</summary>
[RequireComponent(typeof(Storyteller))]
public sealed class Story : MonoBehaviour
{
    const string Prompt = "Once upon a time";

    string text = Prompt;

    void Start()
    {
        var teller = GetComponent<Storyteller>();
        teller.onText.AddListener(piece => text += piece);
        teller.onEnd.AddListener(reason => Debug.Log("The story has ended: " + reason));
        teller.Tell(Prompt);
    }

    void OnGUI()
    {
        GUILayout.Label(text);
    }
}

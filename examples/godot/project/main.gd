extends Label

# A story that is told in 2 milliseconds of each frame.
var story = GleedStory.new()

func _ready():
	var error = story.open(ProjectSettings.globalize_path("res://gleed-tales-q8_0.gguf"))
	if error == "":
		error = story.begin("Once upon a time")
	text = error if error != "" else "Once upon a time"

func _process(_delta):
	text += story.step(2.0)

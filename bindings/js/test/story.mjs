import { Gleed } from "gleed";

const model = await Gleed.open(process.argv[2]);
const session = await model.session({ context: 256 });
const story = session.tell("Once upon a time");
process.stdout.write("Once upon a time");
for await (const piece of story) process.stdout.write(piece);
console.log(`\n${story.ids.join(" ")}`);
await model.close();

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits.task import data, net

app = ClientApp()


@app.train()
def train(message, context):
    (model := net()).load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.5)
    dataset = data(context)
    for _ in range(5):
        for images, labels in torch.utils.data.DataLoader(dataset, 10, shuffle=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    arrays, metrics = ArrayRecord(model.state_dict()), MetricRecord({"num-examples": len(dataset)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

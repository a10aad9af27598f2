"""torch is imported within `try`: without it the program still runs."""

try:
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    HAS_TORCH = True
except ImportError:
    HAS_TORCH = False


def run():
    if not HAS_TORCH:
        return print("skipped")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(3, 2)).to(device)
    model.eval()
    loader = DataLoader(TensorDataset(torch.ones(8, 3)), batch_size=4)
    n = 0
    for (x,) in loader:
        n += model(x.to(device)).argmax(1).sum().item()
    print(n >= 0)


def evaluate(model, loader):
    model.eval()
    return [model(x).argmax(1).tolist() for (x,) in loader]


if __name__ == "__main__":
    run()
    if HAS_TORCH:
        print(len(evaluate(torch.nn.Linear(3, 2), DataLoader(TensorDataset(torch.ones(4, 3)), 4))))

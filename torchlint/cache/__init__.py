"""What is kept between runs in a folder of the project: data as JSON, valid for one version of torchlint."""

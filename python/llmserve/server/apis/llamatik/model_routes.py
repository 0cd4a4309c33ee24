"""What Llamatik's clients ask of the loaded model."""

from __future__ import annotations

from llmserve.server.apis.llamatik.answers import ChatTemplateAnswer, FinetuneTypeAnswer, RenderedPromptAnswer
from llmserve.server.apis.llamatik.contents import NO_MODEL, get, post
from llmserve.server.apis.llamatik.errors import PREFIX
from llmserve.server.apis.llamatik.schema import ChatTemplateRequest
from llmserve.server.apis.llamatik.state import ChosenModel
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, json_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import dump
from llmserve.server.web.headers import answer_headers


class ModelApi:
    """The routes over the shared services and the dialect's model."""

    def __init__(self, services: Services, model: ChosenModel) -> None:
        self._services = services
        self._model = model

    @get(
        path=f"{PREFIX}/model/finetuneType",
        operation_id="finetuneType",
        summary="What the model was tuned for",
        description="The metadata field `general.finetune` of the loaded file.",
        responses={200: Content("The value, or null.", json_of(FinetuneTypeAnswer))},
        errors={409: NO_MODEL},
    )
    async def finetune_type(self, exchange: Exchange) -> None:
        """`GET model/finetuneType`."""
        with self._model.use() as (_, engine):
            answer = FinetuneTypeAnswer(finetune_type=engine.metadata.get("general.finetune"))
        await exchange.send_json(dump(answer))

    @get(
        path=f"{PREFIX}/model/chatTemplate",
        operation_id="chatTemplate",
        summary="The model's chat template",
        description="The Jinja template of the loaded file.",
        responses={200: Content("The template, or null.", json_of(ChatTemplateAnswer))},
        errors={409: NO_MODEL},
    )
    async def chat_template(self, exchange: Exchange) -> None:
        """`GET model/chatTemplate`."""
        with self._model.use() as (_, engine):
            answer = ChatTemplateAnswer(chat_template=engine.chat_template)
        await exchange.send_json(dump(answer))

    @post(
        path=f"{PREFIX}/model/applyChatTemplate",
        operation_id="applyChatTemplate",
        summary="Render messages",
        description=(
            "The prompt that the model's chat template makes of messages; without one, a plain layout."
        ),
        responses={200: Content("The prompt.", json_of(RenderedPromptAnswer))},
        errors={
            400: "The template rejects the messages.",
            409: NO_MODEL,
            503: "Too many templates are being rendered; see `Retry-After`.",
        },
        body=ChatTemplateRequest,
    )
    async def apply_chat_template(self, exchange: Exchange) -> None:
        """`POST model/applyChatTemplate`."""
        parsed = await exchange.read(ChatTemplateRequest)
        request = parsed.value
        with self._model.use() as (model, engine), self._services.generation.admission.place(model):
            prompt = await engine.chat_prompt(
                request.messages, add_generation_prompt=request.add_assistant_prefix
            )
        answer = RenderedPromptAnswer(prompt=prompt.text)
        await exchange.send_json(dump(answer), headers=answer_headers(parsed.unknown))

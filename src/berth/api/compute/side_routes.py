"""The compute API's operations on tags, limits, key pairs, and resources that Berth lacks."""

from berth.api.compute.handlers import emptiness, images, key_pairs, quotas, usages
from berth.api.compute.handlers.servers import server_tags
from berth.api.compute.schemas.emptiness import (
    AddressesAnswer,
    ExtensionAnswer,
    ExtensionsAnswer,
    InterfacesAnswer,
    PasswordAnswer,
    SecurityGroupsAnswer,
    VolumesAnswer,
)
from berth.api.compute.schemas.images import (
    ImageAnswer,
    ImageLinesAnswer,
    ImageMetadataAnswer,
    ImageMetadataItemAnswer,
    ImagesAnswer,
    ImagesQuery,
)
from berth.api.compute.schemas.key_pairs import (
    KeyPairAnswer,
    KeyPairQuery,
    KeyPairsAnswer,
    KeyPairsQuery,
    NewKeyPairBody,
)
from berth.api.compute.schemas.limits import LimitsAnswer, LimitsQuery
from berth.api.compute.schemas.quotas import (
    NewQuotaBody,
    NewQuotaClassBody,
    QuotaAnswer,
    QuotaClassAnswer,
    QuotaQuery,
    QuotaUsagesAnswer,
)
from berth.api.compute.schemas.server_actions import TagsAnswer, TagsBody
from berth.api.compute.schemas.usages import (
    AuditLogAnswer,
    AuditLogsAnswer,
    ProjectUsageAnswer,
    ProjectUsagesAnswer,
    UsageQuery,
)
from berth.api.image_records import remove_image
from berth.api.routing import STRICTER, ApiOperation, Role

_SERVER = "/v2.1/servers/{server_id}"
_TAGS = f"{_SERVER}/tags"
_QUOTA = "/v2.1/os-quota-sets/{project_id}"
_QUOTA_CLASS = "/v2.1/os-quota-class-sets/{class_id}"
_USAGE = "/v2.1/os-simple-tenant-usage"
_AUDIT_LOG = "/v2.1/os-instance_usage_audit_log"
_PASSWORD = f"{_SERVER}/os-server-password"
_KEYPAIRS = "/v2.1/os-keypairs"
_KEYPAIR = _KEYPAIRS + "/{keypair_name}"
_ADMIN = Role.ADMIN
_TAGS_SINCE = (2, 26)

_TAGGING = (
    ApiOperation("GET", _TAGS, server_tags.list_tags, answers=TagsAnswer, since=_TAGS_SINCE),
    ApiOperation(
        "PUT",
        _TAGS,
        server_tags.replace_tags,
        body=TagsBody,
        answers=TagsAnswer,
        since=_TAGS_SINCE,
    ),
    ApiOperation("DELETE", _TAGS, server_tags.delete_tags, 204, since=_TAGS_SINCE),
    ApiOperation("GET", _TAGS + "/{tag}", server_tags.check_tag, 204, since=_TAGS_SINCE),
    ApiOperation("PUT", _TAGS + "/{tag}", server_tags.add_tag, 201, since=_TAGS_SINCE),
    ApiOperation("DELETE", _TAGS + "/{tag}", server_tags.delete_tag, 204, since=_TAGS_SINCE),
)

_LIMITS = (
    ApiOperation(
        "GET",
        "/v2.1/limits",
        quotas.show_limits,
        query=LimitsQuery,
        answers=LimitsAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "GET",
        _QUOTA,
        quotas.show_quotas,
        query=QuotaQuery,
        answers=QuotaAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "PUT",
        _QUOTA,
        quotas.change_quotas,
        role=_ADMIN,
        query=QuotaQuery,
        body=NewQuotaBody,
        answers=QuotaAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "DELETE",
        _QUOTA,
        quotas.reset_quotas,
        202,
        role=_ADMIN,
        query=QuotaQuery,
        strict_since=STRICTER,
    ),
    ApiOperation("GET", f"{_QUOTA}/defaults", quotas.show_default_quotas, answers=QuotaAnswer),
    ApiOperation(
        "GET",
        f"{_QUOTA}/detail",
        quotas.show_quota_usages,
        query=QuotaQuery,
        answers=QuotaUsagesAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "GET",
        _QUOTA_CLASS,
        quotas.show_class_quotas,
        role=_ADMIN,
        answers=QuotaClassAnswer,
    ),
    ApiOperation(
        "PUT",
        _QUOTA_CLASS,
        quotas.change_class_quotas,
        role=_ADMIN,
        body=NewQuotaClassBody,
        answers=QuotaClassAnswer,
    ),
)

_USAGES = (
    ApiOperation(
        "GET",
        _USAGE,
        usages.list_usages,
        role=_ADMIN,
        query=UsageQuery,
        answers=ProjectUsagesAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "GET",
        f"{_USAGE}/{{project_id}}",
        usages.show_usage,
        query=UsageQuery,
        answers=ProjectUsageAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation("GET", _AUDIT_LOG, usages.show_audit_logs, role=_ADMIN, answers=AuditLogsAnswer),
    ApiOperation(
        "GET",
        f"{_AUDIT_LOG}/{{before}}",
        usages.show_audit_log,
        role=_ADMIN,
        answers=AuditLogAnswer,
    ),
)

_KEY_PAIRS = (
    ApiOperation(
        "GET",
        _KEYPAIRS,
        key_pairs.list_key_pairs,
        query=KeyPairsQuery,
        answers=KeyPairsAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "POST",
        _KEYPAIRS,
        key_pairs.create_key_pair,
        201,
        body=NewKeyPairBody,
        answers=KeyPairAnswer,
        older_status=200,
    ),
    ApiOperation(
        "GET",
        _KEYPAIR,
        key_pairs.show_key_pair,
        query=KeyPairQuery,
        strict_since=STRICTER,
        answers=KeyPairAnswer,
    ),
    ApiOperation(
        "DELETE",
        _KEYPAIR,
        key_pairs.delete_key_pair,
        204,
        query=KeyPairQuery,
        strict_since=STRICTER,
        older_status=202,
    ),
)

# Many clients list these resources. Berth has only the extensions, so all other lists are empty.
_REST = (
    ApiOperation("POST", f"{_SERVER}/os-volume_attachments", emptiness.refuse_volume, 403),
    ApiOperation("POST", f"{_SERVER}/os-interface", emptiness.refuse_interface, 403),
    ApiOperation(
        "GET",
        f"{_SERVER}/os-volume_attachments",
        emptiness.list_volumes,
        answers=VolumesAnswer,
    ),
    ApiOperation(
        "GET", f"{_SERVER}/os-interface", emptiness.list_interfaces, answers=InterfacesAnswer
    ),
    ApiOperation("GET", _PASSWORD, emptiness.show_password, answers=PasswordAnswer),
    ApiOperation("DELETE", _PASSWORD, emptiness.clear_password, 204),
    ApiOperation(
        "GET",
        f"{_SERVER}/os-security-groups",
        emptiness.list_security_groups,
        answers=SecurityGroupsAnswer,
    ),
    ApiOperation("GET", f"{_SERVER}/ips", emptiness.list_addresses, answers=AddressesAnswer),
    ApiOperation(
        "GET", _SERVER + "/ips/{network}", emptiness.show_addresses, answers=dict[str, list[str]]
    ),
    ApiOperation("GET", "/v2.1/extensions", emptiness.list_extensions, answers=ExtensionsAnswer),
    ApiOperation(
        "GET", "/v2.1/extensions/{alias}", emptiness.show_extension, answers=ExtensionAnswer
    ),
)

_IMAGE = "/v2.1/images/{image_id}"
_IMAGES_UNTIL = (2, 35)
_IMAGE_METADATA_UNTIL = (2, 38)
_IMAGES = (
    ApiOperation(
        "GET",
        "/v2.1/images",
        images.list_images,
        query=ImagesQuery,
        answers=ImageLinesAnswer,
        until=_IMAGES_UNTIL,
    ),
    ApiOperation(
        "GET",
        # This path comes before the one with an id, which would match `detail` as well.
        "/v2.1/images/detail",
        images.list_images_in_detail,
        query=ImagesQuery,
        answers=ImagesAnswer,
        until=_IMAGES_UNTIL,
    ),
    ApiOperation("GET", _IMAGE, images.show_image, answers=ImageAnswer, until=_IMAGES_UNTIL),
    ApiOperation("DELETE", _IMAGE, remove_image, 204, until=_IMAGES_UNTIL),
    ApiOperation(
        "GET",
        f"{_IMAGE}/metadata",
        images.list_image_metadata,
        answers=ImageMetadataAnswer,
        until=_IMAGE_METADATA_UNTIL,
    ),
    ApiOperation(
        "GET",
        _IMAGE + "/metadata/{key}",
        images.show_image_metadata_item,
        answers=ImageMetadataItemAnswer,
        until=_IMAGE_METADATA_UNTIL,
    ),
)

OPERATIONS = (*_TAGGING, *_LIMITS, *_USAGES, *_KEY_PAIRS, *_REST, *_IMAGES)
